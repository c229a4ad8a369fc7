//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Steps that can always be skipped. Their code contains the reasons.
const (
	// growStep needs a StorageClass that can expand volumes. A test with envtest covers it, too.
	growStep = "volumes grow, or the reason is shown"
	// manyStep is off by default, because it needs a larger machine.
	manyStep = "brokers of a thousand partitions fail"
)

// skips collects the skipped steps and parts of steps. It is needed because package testing reports
// a run with skipped tests as a success.
type skips struct {
	mu    sync.Mutex
	names []string
}

// add adds a step, or a part of a step, by the name of its test. A skipped step can be added twice.
func (s *skips) add(test string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.names, test) {
		s.names = append(s.names, test)
	}
}

// report returns a line with the skipped steps, or "" if there are none. fails reports whether the
// run fails because of them. partial is the value of E2E_PARTIAL.
func (s *skips) report(partial string) (line string, fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) == 0 {
		return "", false
	}
	optional := []string{testName(growStep), testName(manyStep)}
	if last, err := lastRelease(); last == nil && err == nil {
		optional = append(optional, testName(previousStep))
	}
	line = "SKIPPED SCENARIOS: " + strings.Join(s.names, ", ")
	required := slices.ContainsFunc(s.names, func(name string) bool {
		return !slices.Contains(optional, name)
	})
	if required && partial != "1" {
		return line + fmt.Sprint("\nset FAULTS, LATER_IMAGE, DIST and PREVIOUS_IMAGE, or E2E_PARTIAL=1 ",
			"if these may be skipped: see test/e2e/doc.go"), true
	}
	return line, false
}

// testName returns the name of a step's test.
func testName(step string) string {
	return "TestHeartwoodOnKubernetes/" + strings.ReplaceAll(step, " ", "_")
}

// atEndOf reports the skipped steps when a test ends, after all its other cleanups. It must be
// called before these cleanups are registered.
func (s *skips) atEndOf(t *testing.T) {
	t.Cleanup(func() {
		switch line, fails := s.report(os.Getenv("E2E_PARTIAL")); {
		case fails:
			t.Error(line)
		case line != "":
			t.Log(line)
		}
	})
}

// watch returns a step that adds itself to the skipped steps if it is skipped.
func (s *skips) watch(step func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		defer func() {
			if t.Skipped() {
				s.add(t.Name())
			}
		}()
		step(t)
	}
}

// skip skips a step, or a part of a step. t.Skip alone would not report this to the parent test.
func (e *environment) skip(t *testing.T, reason string) {
	t.Helper()
	e.skips.add(t.Name())
	t.Skip(reason)
}

// TestSkippedScenariosFailTheRun checks that a run with skipped steps passes only if these steps
// can always be skipped, or with E2E_PARTIAL=1.
func TestSkippedScenariosFailTheRun(t *testing.T) {
	const nodes, part = "nodes fail and return", "brokers fail one after the other/kill"
	for _, test := range []struct {
		name    string
		skipped []string
		partial string
		line    string // beginning of the line
		fails   bool
	}{
		{"nothing is skipped", nil, "", "", false},
		{"these may be skipped", []string{growStep, manyStep}, "", "SKIPPED SCENARIOS: " +
			testName(growStep) + ", " + testName(manyStep), false},
		{"a step is skipped", []string{growStep, nodes}, "", "SKIPPED SCENARIOS: " +
			testName(growStep) + ", " + testName(nodes) + "\nset FAULTS", true},
		{"a part of a step is skipped", []string{part}, "0", "SKIPPED SCENARIOS: " +
			testName(part) + "\nset FAULTS", true},
		{"the run is partial", []string{nodes, part}, "1", "SKIPPED SCENARIOS: " +
			testName(nodes) + ", " + testName(part), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			skipped := &skips{}
			for _, step := range test.skipped {
				skipped.add(testName(step))
				skipped.add(testName(step))
			}
			line, fails := skipped.report(test.partial)
			if !strings.HasPrefix(line, test.line) || test.line == "" && line != "" ||
				fails != test.fails {
				t.Errorf("fails: %t, want %t: %q, want %q", fails, test.fails, line, test.line)
			}
		})
	}
}

// TestStepsThatAreSkippedAreWatched checks that a skipped step is added, although t.Skip ends the
// step's goroutine.
func TestStepsThatAreSkippedAreWatched(t *testing.T) {
	watched := &skips{}
	t.Run("skipped", watched.watch(func(t *testing.T) { t.Skip("as intended") }))
	t.Run("not skipped", watched.watch(func(*testing.T) {}))
	if want := []string{t.Name() + "/skipped"}; !slices.Equal(watched.names, want) {
		t.Errorf("got %q, want %q", watched.names, want)
	}
}
