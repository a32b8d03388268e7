package natsx

import (
	"os"
	"testing"
	"time"

	"github.com/embedd/embedd/internal/testsize"
)

func TestMain(m *testing.M) {
	testsize.AtOnce(8)
	KeyPoll = time.Second
	os.Exit(m.Run())
}
