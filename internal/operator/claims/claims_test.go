package claims

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// claim returns the bound claim data-<broker> with a requested size and a capacity.
func claim(broker int32, requested, capacity string) Claim {
	c := Claim{Broker: broker, Name: fmt.Sprintf("data-%d", broker), Class: "fast", Bound: true,
		Requested: resource.MustParse(requested)}
	if capacity != "" {
		c.Capacity = resource.MustParse(capacity)
	}
	return c
}

func with(c Claim, change func(*Claim)) Claim {
	change(&c)
	return c
}

// asked returns the bound claim data-1. The operator has requested the given size for it.
func asked(size, requested, capacity string) Claim {
	return with(claim(1, requested, capacity),
		func(c *Claim) { c.Asked = new(resource.MustParse(size)) })
}

func TestNextRequestOfAClaim(t *testing.T) {
	for name, c := range map[string]struct {
		claim Claim
		want  string // "" if the request must not change
	}{
		"smaller":              {claim(0, "10Gi", "10Gi"), "20Gi"},
		"smaller, another way": {claim(0, "20479Mi", "20479Mi"), "20Gi"},
		"equal":                {claim(0, "20480Mi", "20Gi"), ""},
		"larger":               {claim(0, "21Gi", "21Gi"), ""},
		"growing":              {claim(0, "20Gi", "10Gi"), ""},
		"without a volume": {with(claim(0, "10Gi", ""),
			func(c *Claim) { c.Bound = false }), ""},

		"grown to an earlier size":      {asked("15Gi", "15Gi", "15Gi"), "20Gi"},
		"lowered by hand":               {asked("20Gi", "12Gi", "10Gi"), ""},
		"lowered by hand before":        {asked("30Gi", "12Gi", "10Gi"), "20Gi"},
		"mistaken growth":               {asked("40Gi", "40Gi", "10Gi"), "20Gi"},
		"mistaken growth, same volume":  {asked("40Gi", "40Gi", "20Gi"), "20481Mi"},
		"withdrawn":                     {asked("20481Mi", "20481Mi", "20Gi"), ""},
		"mistaken growth that happened": {asked("40Gi", "40Gi", "40Gi"), ""},
		"mistaken growth, partly":       {asked("40Gi", "40Gi", "30Gi"), "30721Mi"},
		"mistaken, lowered by hand":     {asked("40Gi", "35Gi", "10Gi"), "20Gi"},
		"grown by others":               {claim(0, "40Gi", "10Gi"), ""},
		"grown further by others":       {asked("20Gi", "40Gi", "10Gi"), ""},
		"capacity unknown":              {asked("40Gi", "40Gi", "0"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			next, changed := c.claim.Next(resource.MustParse("20Gi"))
			if !changed && c.want == "" {
				return
			}
			if c.want == "" || next.String() != c.want {
				t.Fatalf("got %s (%t), want %q", next.String(), changed, c.want)
			}
			after := c.claim
			after.Requested, after.Asked = next, &next
			if again, changed := after.Next(resource.MustParse("20Gi")); changed {
				t.Errorf("and then %s", again.String())
			}
		})
	}
}

func TestVerdictNamesTheMostSevereState(t *testing.T) {
	fine, growing := claim(0, "20Gi", "20Gi"), claim(1, "20Gi", "10Gi")
	unbound := with(claim(1, "10Gi", ""), func(c *Claim) { c.Bound = false })
	byClass := map[int32]Refusal{2: {ByClass: true}}
	for name, c := range map[string]struct {
		state  State
		reason string
		words  []string
	}{
		"no claims": {State{}, v1alpha1.ReasonResized, []string{"at least 20Gi"}},
		"all grown": {State{Claims: []Claim{fine}}, v1alpha1.ReasonResized, nil},
		"growing": {State{Claims: []Claim{fine, growing, claim(2, "20Gi", "15Gi")}},
			v1alpha1.ReasonResizing, []string{"data-1 of broker 1 is growing from 10Gi to 20Gi",
				"(also brokers 2)"}},
		"unbound": {State{Claims: []Claim{unbound}}, v1alpha1.ReasonResizing,
			[]string{"data-1", "when it has a volume"}},
		"replaced by another class": {State{Claims: []Claim{with(claim(1, "10Gi", "10Gi"),
			func(c *Claim) { c.Replaced = true })}}, v1alpha1.ReasonResizing,
			[]string{"data-1 of broker 1 requests 10Gi", "replaces it requests 20Gi"}},
		"file system": {State{Claims: []Claim{with(growing,
			func(c *Claim) { c.FileSystemPending = true })}}, v1alpha1.ReasonResizing,
			[]string{"the file system of broker 1 is to follow"}},
		"restart": {State{Claims: []Claim{with(growing, func(c *Claim) { c.Broker = 0 }), growing},
			Restarts: map[int32]bool{1: true}}, v1alpha1.ReasonResizing,
			[]string{"Broker 1 is restarted"}},
		"class": {State{Claims: []Claim{growing, claim(2, "10Gi", "10Gi")}, Refusals: byClass},
			v1alpha1.ReasonClassCannotExpand, []string{"data-2 of broker 2 requests 10Gi",
				"StorageClass fast does not allow it", "allowVolumeExpansion"}},
		"no class": {State{Claims: []Claim{with(claim(2, "10Gi", "10Gi"),
			func(c *Claim) { c.Class = "" })}, Refusals: byClass},
			v1alpha1.ReasonClassCannotExpand, []string{"it has no StorageClass"}},
		"refused": {State{Claims: []Claim{growing, claim(2, "10Gi", "10Gi")},
			Refusals: map[int32]Refusal{2: {Message: "exceeded quota."}}},
			v1alpha1.ReasonResizeFailed, []string{"data-2", "exceeded quota. It is tried again",
				"kubectl describe pvc data-2"}},
		"driver failed": {State{Claims: []Claim{with(growing,
			func(c *Claim) { c.ResizeError = "out of disks" })}}, v1alpha1.ReasonResizeFailed,
			[]string{"data-1", "out of disks"}},
		"old error of the driver": {State{Claims: []Claim{with(fine,
			func(c *Claim) { c.ResizeError = "out of disks" })}}, v1alpha1.ReasonResized, nil},
		"class, with the way back": {State{Claims: []Claim{claim(2, "10Gi", "10Gi"),
			claim(1, "12Gi", "12Gi")}, Refusals: byClass}, v1alpha1.ReasonClassCannotExpand,
			[]string{"set spec.storage.size to 12Gi. New brokers get volumes of 20Gi"}},
		"driver failed, with the way back": {State{Claims: []Claim{with(growing,
			func(c *Claim) { c.ResizeError = "out of disks" })}}, v1alpha1.ReasonResizeFailed,
			[]string{"a smaller one, but not below 10Gi"}},
		"taken back": {State{Claims: []Claim{with(asked("40Gi", "20481Mi", "20Gi"),
			func(c *Claim) { c.ResizeError = "out of disks" })}}, v1alpha1.ReasonResized,
			[]string{"at least 20Gi"}},
		"taken back, refused": {State{Claims: []Claim{asked("40Gi", "40Gi", "20Gi")},
			Refusals: map[int32]Refusal{1: {Message: "can not be less."}}},
			v1alpha1.ReasonShrinkRefused, []string{"data-1 of broker 1 requests 40Gi",
				"volume of 20Gi", "can not be less. Kubernetes 1.34"}},
		"lowered by hand": {State{Claims: []Claim{asked("20Gi", "12Gi", "10Gi")}},
			v1alpha1.ReasonGrowthWithdrawn, []string{"lowered from 20Gi to 12Gi",
				"Set spec.storage.size to 12Gi",
				"kubectl annotate pvc data-1 heartwood.dev/requested-size-"}},
		"grown by others, not yet": {State{Claims: []Claim{claim(1, "30Gi", "20Gi")}},
			v1alpha1.ReasonShrinkRefused, []string{"the operator has not requested it",
				"a size above 20Gi", "kubectl edit pvc data-1"}},
		"too large without a volume": {State{Claims: []Claim{with(claim(1, "30Gi", "0"),
			func(c *Claim) { c.Bound, c.Name = false, "data-main-broker-1" })}},
			v1alpha1.ReasonShrinkRefused, []string{"kubectl delete pvc data-main-broker-1",
				"kubectl delete pod main-broker-1"}},
		"grown by others": {State{Claims: []Claim{claim(1, "30Gi", "30Gi"),
			claim(2, "40Gi", "40Gi")}}, v1alpha1.ReasonShrinkRefused,
			[]string{"data-1 of broker 1 has a volume of 30Gi", "Set spec.storage.size to 40Gi"}},
		"larger, and growing": {State{Claims: []Claim{claim(0, "30Gi", "30Gi"), growing}},
			v1alpha1.ReasonResizing, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.state.Size = resource.MustParse("20Gi")
			got := c.state.Verdict()
			if got.Reason != c.reason || got.Resized != (c.reason == v1alpha1.ReasonResized) {
				t.Errorf("got %+v, want reason %s", got, c.reason)
			}
			for _, words := range c.words {
				if !strings.Contains(got.Message, words) {
					t.Errorf("%q does not contain %q", got.Message, words)
				}
			}
		})
	}
}
