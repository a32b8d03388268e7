package natsx

import (
	"os"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
)

func TestMain(m *testing.M) {
	testsize.AtOnce(8)
	os.Exit(m.Run())
}
