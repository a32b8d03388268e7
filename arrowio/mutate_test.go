package arrowio

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/bound"
)

// The mutation driver changes valid messages at random and uses those that are still accepted. It runs in a child
// process with an address-space limit of 2 GiB, so that an allocation of a declared size crashes it, which the parent
// counts. It is deterministic: mutation k is the same in every run.
//
//	go test ./arrowio -run TestMutations -v -args -mutations 300000
var (
	mutations = flag.Int("mutations", 3000, "number of mutated messages in TestMutations")
	firstSeed = flag.Uint64("first", 0, "number of the first mutation")
)

const childEnv = "ARROWIO_MUTATE" // file for the number of the current mutation; set in the child

// seeds are the valid messages that mutations start from.
func seeds(t testing.TB) (list [][]byte) {
	files := fixtures(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if len(files[name]) < 16<<10 {
			list = append(list, files[name])
		}
	}
	for _, shape := range []bool{true, false} {
		list = append(list, sample(t, 9, 5, shape, true))
	}
	return list
}

var interesting = []uint64{0, 1, 2, 7, 8, 16, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 1 << 20, 1 << 24,
	1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 40,
	1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 1, 1<<64 - 8}

// mutate applies one to three changes.
func mutate(r *rand.Rand, seeds [][]byte) []byte {
	msg := slices.Clone(seeds[r.IntN(len(seeds))])
	for range 1 + r.IntN(3) {
		if len(msg) < 16 {
			return msg
		}
		at := r.IntN(len(msg))
		if n := int(le.Uint32(msg[4:])); r.IntN(3) > 0 && n > 0 && n < len(msg) {
			at = r.IntN(n) // the schema and the bytes after it
			if r.IntN(2) == 0 {
				at = min(len(msg)-1, n+r.IntN(600))
			}
		}
		switch r.IntN(8) {
		case 0, 1:
			msg[at] ^= 1 << r.IntN(8)
		case 2:
			msg = msg[:at]
		case 3, 4:
			if at &^= 3; at+4 <= len(msg) {
				le.PutUint32(msg[at:], uint32(interesting[r.IntN(len(interesting))]))
			}
		case 5:
			if at &^= 7; at+8 <= len(msg) {
				le.PutUint64(msg[at:], interesting[r.IntN(len(interesting))])
			}
		case 6:
			msg = reframe(r, msg, seeds[r.IntN(len(seeds))])
		case 7:
			if n := 1 + r.IntN(64); at+n <= len(msg) {
				from := r.IntN(len(msg) - n + 1)
				copy(msg[at:at+n], msg[from:from+n])
			}
		}
	}
	return msg
}

// nextFrame is ipc.NextFrame with its error.
func nextFrame(rest []byte, first bool) (f ipc.Frame, tail []byte, end bool, err error) {
	defer rescue(&err)
	f, tail, end = ipc.NextFrame(rest, first)
	return f, tail, end, nil
}

// reframe drops, duplicates or inserts frames.
func reframe(r *rand.Rand, msg, other []byte) []byte {
	cut := func(msg []byte) (list [][]byte) {
		rest := msg
		for first := true; len(rest) > 0; first = false {
			_, tail, end, err := nextFrame(rest, first)
			if err != nil || end {
				return append(list, rest)
			}
			list, rest = append(list, rest[:len(rest)-len(tail)]), tail
		}
		return list
	}
	a, b := cut(msg), cut(other)
	k := r.IntN(len(a))
	switch r.IntN(3) {
	case 0:
		a = slices.Delete(a, k, k+1)
	case 1:
		a = slices.Insert(a, k, a[r.IntN(len(a))])
	case 2:
		a[k] = b[r.IntN(len(b))]
	}
	return slices.Concat(a...)
}

func mutation(seed uint64, from [][]byte) []byte {
	return mutate(rand.New(rand.NewPCG(seed, 15)), from)
}

func TestMutations(t *testing.T) {
	if file := os.Getenv(childEnv); file != "" {
		mutateChild(t, file)
		return
	}
	if _, err := exec.LookPath("sh"); err != nil || runtime.GOOS != "linux" {
		t.Skip("the address-space limit needs a Linux shell")
	}
	limit := "ulimit -v 2097152; "
	if raceEnabled {
		limit = "" // the race detector maps terabytes
	}
	file := filepath.Join(t.TempDir(), "at")
	deaths := 0
	for next := *firstSeed; next < *firstSeed+uint64(*mutations); {
		if err := os.WriteFile(file, make([]byte, 8), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", limit+`exec "$0" -test.run '^TestMutations$' -test.v "$@"`, os.Args[0],
			"-mutations",
			strconv.FormatUint(*firstSeed+uint64(*mutations)-next, 10), "-first", strconv.FormatUint(next, 10))
		cmd.Env = append(os.Environ(), childEnv+"="+file)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Logf("%s%d deaths", out, deaths)
			return
		}
		at, readErr := os.ReadFile(file)
		if readErr != nil || len(at) != 8 {
			t.Fatal(readErr)
		}
		deaths++
		t.Errorf("death at mutation %d: %v\n%.3000s", le.Uint64(at), err, out)
		if next = le.Uint64(at) + 1; deaths == 20 {
			t.Fatal("too many deaths")
		}
	}
}

func mutateChild(t *testing.T, file string) {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	from := seeds(t)
	specs := [2]Spec{{Features: []string{"*"}, Label: "label", Key: "id"}, {}}
	d, contract := newDecoder(t, specs[0]), (*Contract)(nil)
	e := newEncoder(t, Output{})
	accepted, refused := 0, map[wire.Code]int{}
	var worst time.Duration
	for seed := *firstSeed; seed < *firstSeed+uint64(*mutations); seed++ {
		if _, err := f.WriteAt(binary.LittleEndian.AppendUint64(nil, seed), 0); err != nil {
			t.Fatal(err)
		}
		if seed%64 == 0 {
			d, contract = newDecoder(t, specs[seed/64%2]), nil
		}
		msg := mutation(seed, from)
		watchdog := time.AfterFunc(bound.Hang, func() {
			fmt.Println("hang")
			os.Exit(3)
		})
		start := time.Now()
		if err := touch(d, e, msg, contract); err != nil {
			t.Errorf("mutation %d: %v", seed, err)
		}
		worst = max(worst, time.Since(start))
		watchdog.Stop()
		m, err := d.Decode(msg, contract)
		var fail *Error
		if errors.As(err, &fail) {
			refused[fail.Code]++
			continue
		}
		accepted++
		if seed/128%2 == 0 { // the next ones of the 64 are read under its contract
			contract = m.Contract()
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM") {
			fmt.Print(line)
		}
	}
	fmt.Printf("%d mutations, %d accepted, refused %v, slowest %v\n", *mutations, accepted, refused, worst)
}

// FuzzDecode searches by coverage, in addition to the mutation driver. Its seeds are the valid messages and the crafted
// ones.
func FuzzDecode(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s, uint64(0))
	}
	for _, c := range crafts(f) {
		if len(c.msg) < 16<<10 {
			f.Add(c.msg, uint64(0))
		}
	}
	limits := Limits{Message: 1 << 20, Body: 1 << 20, Rows: 10_000}
	var contracts []*Contract
	for _, s := range seeds(f) {
		m, err := newDecoder(f, Spec{Features: []string{"*"}, Label: "label", Key: "id"}).Decode(s, nil)
		if err == nil && !slices.ContainsFunc(contracts, m.Contract().Equal) {
			contracts = append(contracts, m.Contract())
		}
	}
	plain, packed := newEncoder(f, Output{}), newEncoder(f, Output{Compression: "lz4", Columns: true})
	most := uint64(32 << 20)
	if raceEnabled { // pools drop buffers at random then
		most *= 4
	}
	f.Fuzz(func(t *testing.T, msg []byte, seed uint64) {
		if seed != 0 && len(msg) > 0 {
			msg = mutate(rand.New(rand.NewPCG(seed, 16)), [][]byte{msg})
		}
		for _, s := range []Spec{{Features: []string{"*"}, Label: "label", Key: "id"}, {}} {
			s.Limits = limits
			d := newDecoder(t, s)
			try := func(e *Encoder, c *Contract) {
				bound.Check(t, most, func() {
					if err := touch(d, e, msg, c); err != nil {
						t.Errorf("under %v: %v", c, err)
					}
				})
			}
			try(packed, nil)
			try(plain, nil)
			for _, c := range contracts {
				try(plain, c)
			}
		}
		agree(t, newDecoder(t, Spec{Features: []string{"*"}, Label: "label", Key: "id", Limits: limits}), msg)
	})
}

// agree fails if an accepted message has other rows under the contract that it proposes, or if that contract differs
// from its JSON form.
func agree(t *testing.T, d *Decoder, msg []byte) {
	m, err := d.Decode(msg, nil)
	if err != nil || m.Contract() == nil || m.Contract().Len() > 4096 || m.Rows()*m.Contract().Len() > 1<<14 {
		return
	}
	text, err := json.Marshal(m.Contract())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseContract(text)
	if err != nil || !c.Equal(m.Contract()) || c.ID() != m.Contract().ID() {
		t.Fatalf("%s is read as %v: %v", text, c, err)
	}
	if c, err = NewContract(m.Contract().Elements(), "", ""); err != nil || !c.Equal(m.Contract()) {
		t.Fatalf("the elements of %s are %v: %v", text, c, err)
	}
	under, err := d.Decode(msg, c)
	if err != nil {
		t.Fatalf("a message does not fit the contract that it proposes: %v", err)
	}
	for i, b := range m.Batches() {
		for k, want := range b.Features() {
			if got := under.Batches()[i].Features()[k]; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("batch %d: block %d is %v under its own contract, not %v", i, k, got, want)
			}
		}
	}
}
