package seed_test

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

func TestSeedsDependOnTheTestName(t *testing.T) {
	t.Setenv(seed.Variable, "")
	got := []uint64{seed.New(t), seed.New(t)}
	for _, name := range []string{"one", "other"} {
		t.Run(name, func(t *testing.T) { got = append(got, seed.New(t)) })
	}
	// These values must never change. Otherwise an update of Go could make an unrelated test fail.
	if want := []uint64{6085132814493623118, 6085132814493623118, 1852072928530643313,
		16111686599202564943}; !slices.Equal(got, want) {
		t.Errorf("seeds %d, want %d", got, want)
	}
}

func TestRandomSeedsDiffer(t *testing.T) {
	t.Setenv(seed.Variable, "random")
	if a, b := seed.New(t), seed.New(t); a == b { // equal by chance only once in 2^64 runs
		t.Errorf("the same seed twice: %d", a)
	}
}

func TestSingleSeed(t *testing.T) {
	t.Setenv(seed.Variable, "18446744073709551615")
	if got := slices.Collect(seed.Sequence(t, 5, 1, 2)); seed.New(t) != 1<<64-1 ||
		!slices.Equal(got, []uint64{1<<64 - 1}) {
		t.Errorf("seeds %d", got)
	}
	if s, single := seed.Single(t); s != 1<<64-1 || !single {
		t.Errorf("single seed: %d, %t", s, single)
	}
}

func TestSequenceWithFirstSeed(t *testing.T) {
	t.Setenv(seed.Variable, "41..")
	if got := slices.Collect(seed.Sequence(t, 3)); !slices.Equal(got, []uint64{41, 42, 43}) {
		t.Errorf("seeds %d", got)
	}
}

func TestShortSequence(t *testing.T) {
	t.Setenv(seed.Variable, "")
	short := flag.Lookup("test.short").Value
	before := short.String()
	defer func() { _ = short.Set(before) }()
	for run, want := range map[string]int{"true": 3, "false": 25} {
		if err := short.Set(run); err != nil {
			t.Fatal(err)
		}
		if got := len(slices.Collect(seed.Sequence(t, 25))); got != want {
			t.Errorf("-short=%s: %d seeds, want %d", run, got, want)
		}
	}
}

func TestSequenceStartsWithKnownSeeds(t *testing.T) {
	t.Setenv(seed.Variable, "")
	s := seed.New(t)
	if got, want := slices.Collect(seed.Sequence(t, 3, 7, 8)),
		[]uint64{7, 8, s, s + 1, s + 2}; !slices.Equal(got, want) {
		t.Errorf("seeds %d, want %d", got, want)
	}
	for range seed.Sequence(t, 3) {
		break // Sequence must not count the break as a failure of the test
	}
	for _, chosen := range []string{"", "random", "41.."} {
		t.Setenv(seed.Variable, chosen)
		if _, single := seed.Single(t); single {
			t.Errorf("%q: a single seed is reported", chosen)
		}
	}
}

const failing = "SEED_TEST_FAILS"

// TestFailingHelper fails, but only in the process that TestFailurePrintsCommand starts.
func TestFailingHelper(t *testing.T) {
	how := os.Getenv(failing)
	if how == "" {
		t.Skip("run by TestFailurePrintsCommand")
	}
	t.Run("sub (a+b)", func(t *testing.T) {
		if how == "once" {
			seed.New(t)
			t.Fatal("expected")
		}
		tried := 0
		for s := range seed.Sequence(t, 5) {
			tried++
			if tried > 3 {
				panic("the sequence continues after a failure")
			}
			if tried == 3 && how == "error" {
				t.Errorf("expected, with seed %d", s)
			}
			if tried == 3 && how == "fatal" {
				t.Fatalf("expected, with seed %d", s)
			}
		}
	})
}

func TestFailurePrintsCommand(t *testing.T) {
	for how, want := range map[string]string{
		"once":  "HEARTWOOD_SEED=3508016900190432996 go test ./test/kit/seed -count=1 -run '^TestFailingHelper$/^sub_\\(a\\+b\\)$'",
		"error": "HEARTWOOD_SEED=3508016900190432998 go test ./test/kit/seed -count=1 -run '^TestFailingHelper$/^sub_\\(a\\+b\\)$'",
		"fatal": "HEARTWOOD_SEED=3508016900190432998 go test ./test/kit/seed -count=1 -run '^TestFailingHelper$/^sub_\\(a\\+b\\)$'",
	} {
		command := exec.Command(os.Args[0], "-test.run=^TestFailingHelper$")
		command.Env = append(os.Environ(), failing+"="+how, seed.Variable+"=")
		out, err := command.CombinedOutput()
		if err == nil || strings.Count(string(out), want) != 1 ||
			strings.Count(string(out), "repeat:") != 1 {
			t.Errorf("%s: %v, want once %q in\n%s", how, err, want, out)
		}
	}
}
