package cli

import (
	"bytes"
	"encoding/json"
	"testing"
)

// TestPlanIsAppliedIfItHasSteps checks that a plan without steps counts as not applied, because
// nothing was changed.
func TestPlanIsAppliedIfItHasSteps(t *testing.T) {
	for want, steps := range map[bool][]string{false: {}, true: {"set an annotation"}} {
		var out bytes.Buffer
		s := &session{flags: &flags{output: "json"}, out: &out}
		if err := (&consent{}).done(s, steps, ""); err != nil {
			t.Fatal(err)
		}
		var got plan
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Applied != want {
			t.Errorf("%d steps: %s, error %v", len(steps), &out, err)
		}
	}
}
