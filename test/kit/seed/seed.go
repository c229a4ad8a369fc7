package seed

import (
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Variable is the environment variable that chooses: unset, "random", a decimal number below 2^64,
// or such a number and two dots: of a sequence, the first seed.
const Variable = "HEARTWOOD_SEED"

const module = "heartwood.dev/heartwood/"

// New returns the seed of a test. One test asks once: a second call gives the same, unless seeds
// are random.
func New(t testing.TB) uint64 {
	t.Helper()
	s, _ := first(t)
	again := command(t, s)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(again)
		}
	})
	return s
}

// Sequence returns the seeds of a test that wants n of them: those that once found a fault, and n
// more. A given seed comes alone. The sequence ends behind the seed with which the test failed.
func Sequence(t testing.TB, n int, known ...uint64) iter.Seq[uint64] {
	t.Helper()
	from, alone := first(t)
	if alone {
		n, known = 1, nil
	}
	at := caller()
	return func(yield func(uint64) bool) {
		for _, s := range known {
			if !try(t, at, s, yield) {
				return
			}
		}
		for i := range n {
			if !try(t, at, from+uint64(i), yield) {
				return
			}
		}
	}
}

// Alone returns the seed that was given by number, for a test that tells more of it; false if none
// was.
func Alone(t testing.TB) (s uint64, alone bool) {
	t.Helper()
	if chosen := os.Getenv(Variable); chosen == "" || chosen == "random" {
		return 0, false
	}
	return first(t)
}

// try lets a test have one seed, and tells whether it wants more. A test that ends within the loop
// leaves it by the deferred call.
func try(t testing.TB, at string, s uint64, yield func(uint64) bool) (more bool) {
	before := t.Failed()
	defer func() {
		if t.Failed() && !before {
			t.Log(commandAt(at, t.Name(), s))
			more = false
		}
	}()
	return yield(s)
}

// first returns the seed of a test, and whether it was given by number.
func first(t testing.TB) (s uint64, alone bool) {
	t.Helper()
	switch chosen := os.Getenv(Variable); chosen {
	case "":
		h := fnv.New64a()
		_, _ = h.Write([]byte(t.Name())) // a hash never fails
		return h.Sum64(), false
	case "random":
		s = rand.Uint64()
		// at once: a test that hangs, or takes the process with it, logs nothing at its end
		t.Logf("seed %d", s)
		return s, false
	default:
		number, on := strings.CutSuffix(chosen, "..")
		s, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatalf("%s=%q: want a number, a number and two dots, or random", Variable, chosen)
		}
		return s, !on
	}
}

func command(t testing.TB, s uint64) string { return commandAt(caller(), t.Name(), s) }

// commandAt is the command that repeats a test of a package with a seed.
func commandAt(pkg, test string, s uint64) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return fmt.Sprintf("repeat: %s=%d go test %s -count=1 -run '%s'", Variable, s, pkg,
		strings.Join(parts, "/"))
}

// caller is the package under test, as go test is told of it: the nearest caller outside this
// package.
func caller() string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		rel, ours := strings.CutPrefix(frame.Function, module)
		if !ours || strings.HasPrefix(rel, "test/kit/seed.") {
			continue
		}
		slash := strings.LastIndex(rel, "/") + 1
		name, _, _ := strings.Cut(rel[slash:], ".")
		return "./" + rel[:slash] + strings.TrimSuffix(name, "_test")
	}
	return "." // of another module
}
