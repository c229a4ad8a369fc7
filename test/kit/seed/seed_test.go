package seed_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

func TestASeedIsTheSameEachTimeAndAnotherInEachTest(t *testing.T) {
	t.Setenv(seed.Variable, "")
	got := []uint64{seed.New(t), seed.New(t)}
	for _, name := range []string{"one", "other"} {
		t.Run(name, func(t *testing.T) { got = append(got, seed.New(t)) })
	}
	// Fixed for good: were it another after an update of Go, a change that has nothing to do with a
	// test could fail it.
	if want := []uint64{14860385628703300348, 14860385628703300348, 14039135277709425635,
		5705061928353552953}; !slices.Equal(got, want) {
		t.Errorf("seeds %d, want %d", got, want)
	}
}

func TestARandomSeedIsAnotherEachTime(t *testing.T) {
	t.Setenv(seed.Variable, "random")
	if a, b := seed.New(t), seed.New(t); a == b { // once in 2^64 runs
		t.Errorf("twice %d", a)
	}
}

func TestAGivenSeedComesAlone(t *testing.T) {
	t.Setenv(seed.Variable, "18446744073709551615")
	if got := slices.Collect(seed.Sequence(t, 5, 1, 2)); seed.New(t) != 1<<64-1 ||
		!slices.Equal(got, []uint64{1<<64 - 1}) {
		t.Errorf("seeds %d", got)
	}
	if s, alone := seed.Alone(t); s != 1<<64-1 || !alone {
		t.Errorf("alone: %d, %t", s, alone)
	}
}

func TestASequenceMayBeginAnywhere(t *testing.T) {
	t.Setenv(seed.Variable, "41..")
	if got := slices.Collect(seed.Sequence(t, 3)); !slices.Equal(got, []uint64{41, 42, 43}) {
		t.Errorf("seeds %d", got)
	}
}

func TestASequenceBeginsWithTheKnownOnes(t *testing.T) {
	t.Setenv(seed.Variable, "")
	s := seed.New(t)
	if got, want := slices.Collect(seed.Sequence(t, 3, 7, 8)),
		[]uint64{7, 8, s, s + 1, s + 2}; !slices.Equal(got, want) {
		t.Errorf("seeds %d, want %d", got, want)
	}
	for range seed.Sequence(t, 3) {
		break // which must not be taken for the end of a test that failed
	}
	for _, chosen := range []string{"", "random", "41.."} {
		t.Setenv(seed.Variable, chosen)
		if _, alone := seed.Alone(t); alone {
			t.Errorf("%q: no seed was given", chosen)
		}
	}
}

const failing = "SEED_TEST_FAILS"

// TestThatFails does so only where TestAFailureSaysHowToRepeatIt runs it.
func TestThatFails(t *testing.T) {
	how := os.Getenv(failing)
	if how == "" {
		t.Skip("a test that fails, for another")
	}
	t.Run("here (a+b)", func(t *testing.T) {
		if how == "once" {
			seed.New(t)
			t.Fatal("as it must")
		}
		tried := 0
		for s := range seed.Sequence(t, 5) {
			tried++
			if tried > 3 {
				panic("it goes on after a failure")
			}
			if tried == 3 && how == "error" {
				t.Errorf("as it must, with %d", s)
			}
			if tried == 3 && how == "fatal" {
				t.Fatalf("as it must, with %d", s)
			}
		}
	})
}

func TestAFailureSaysHowToRepeatIt(t *testing.T) {
	for how, want := range map[string]string{
		"once":  "HEARTWOOD_SEED=9535377210397884202 go test ./test/kit/seed -count=1 -run '^TestThatFails$/^here_\\(a\\+b\\)$'",
		"error": "HEARTWOOD_SEED=9535377210397884204 go test ./test/kit/seed -count=1 -run '^TestThatFails$/^here_\\(a\\+b\\)$'",
		"fatal": "HEARTWOOD_SEED=9535377210397884204 go test ./test/kit/seed -count=1 -run '^TestThatFails$/^here_\\(a\\+b\\)$'",
	} {
		command := exec.Command(os.Args[0], "-test.run=^TestThatFails$")
		command.Env = append(os.Environ(), failing+"="+how, seed.Variable+"=")
		out, err := command.CombinedOutput()
		if err == nil || strings.Count(string(out), want) != 1 ||
			strings.Count(string(out), "repeat:") != 1 {
			t.Errorf("%s: %v, want once %q in\n%s", how, err, want, out)
		}
	}
}
