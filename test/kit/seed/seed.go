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

// Variable is the environment variable that selects the seeds. It can be unset, "random", a decimal
// number below 2^64, or such a number followed by two dots. In the last case, the number is the
// first seed of a sequence.
const Variable = "HEARTWOOD_SEED"

// shortFactor is the divisor for the number of seeds of a sequence in tests that run with -short.
const shortFactor = 10

const module = "heartwood.dev/heartwood/"

// New returns a test's seed. A second call in the same test returns the same seed, unless
// HEARTWOOD_SEED is "random".
func New(t testing.TB) uint64 {
	t.Helper()
	s, _ := first(t)
	repeat := command(t, s)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(repeat)
		}
	})
	return s
}

// Sequence returns the seeds for a test that runs with several seeds: first the seeds in known,
// with which the test once found a fault, then n more. If HEARTWOOD_SEED is a number, the sequence
// contains only this seed. The sequence ends after a seed with which the test has failed.
func Sequence(t testing.TB, n int, known ...uint64) iter.Seq[uint64] {
	t.Helper()
	from, single := first(t)
	switch {
	case single:
		n, known = 1, nil
	case testing.Short():
		n = (n + shortFactor - 1) / shortFactor
	}
	found := caller()
	return func(yield func(uint64) bool) {
		for _, s := range known {
			if !try(t, found, s, yield) {
				return
			}
		}
		for i := range n {
			if !try(t, found, from+uint64(i), yield) {
				return
			}
		}
	}
}

// Single returns the seed and true if HEARTWOOD_SEED is a number. A test can then log more details,
// because a developer is examining this seed.
func Single(t testing.TB) (s uint64, single bool) {
	t.Helper()
	if chosen := os.Getenv(Variable); chosen == "" || chosen == "random" {
		return 0, false
	}
	return first(t)
}

// try runs the body of a test's loop with one seed. It reports whether the loop continues with the
// next seed. If the test fails, try logs the command that repeats it; a deferred call does this
// even if the body calls t.FailNow.
func try(t testing.TB, caller string, s uint64, yield func(uint64) bool) (more bool) {
	before := t.Failed()
	defer func() {
		if t.Failed() && !before {
			t.Log(commandAt(caller, t.Name(), s))
			more = false
		}
	}()
	return yield(s)
}

// first returns a test's first seed, and whether it is the only one.
func first(t testing.TB) (s uint64, single bool) {
	t.Helper()
	switch chosen := os.Getenv(Variable); chosen {
	case "":
		h := fnv.New64a()
		_, _ = h.Write([]byte(t.Name())) // writing to a hash never fails
		return h.Sum64(), false
	case "random":
		s = rand.Uint64()
		// Log the seed at once, because a test that hangs or crashes the process logs nothing later.
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

// commandAt returns the command that repeats a test of package pkg with seed s.
func commandAt(pkg, test string, s uint64) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return fmt.Sprintf("repeat: %s=%d go test %s -count=1 -run '%s'", Variable, s, pkg,
		strings.Join(parts, "/"))
}

// caller returns the package under test as an argument of `go test`. It is the package of the
// nearest caller outside this package.
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
	return "." // the caller is in another module
}
