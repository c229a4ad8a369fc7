package await

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a testing.TB that records a failure.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestConditionThatStaysFalseFails checks that the test fails at Limit, with the text of the last
// evaluation.
func TestConditionThatStaysFalseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		begin, evaluations := time.Now(), 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			For(r, func() string { evaluations++; return fmt.Sprint("evaluation ", evaluations) })
		}()
		<-done
		if took := time.Since(begin); took < Limit || took > Limit+longestInterval {
			t.Errorf("failed after %v, want %v", took, Limit)
		}
		if !strings.HasSuffix(r.failure, fmt.Sprint("evaluation ", evaluations)) {
			t.Errorf("failed with %q after %d evaluations", r.failure, evaluations)
		}
	})
}

func TestConditionThatBecomesTrueEndsTheWait(t *testing.T) {
	evaluations := 0
	Until(t, "third evaluation", func() bool { evaluations++; return evaluations == 3 })
	if evaluations != 3 {
		t.Errorf("got %d evaluations, want 3", evaluations)
	}
}
