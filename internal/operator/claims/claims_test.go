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

func TestOnlyBoundClaimsThatAreTooSmallGrow(t *testing.T) {
	size := resource.MustParse("20Gi")
	for name, c := range map[string]struct {
		claim Claim
		want  bool
	}{
		"smaller":              {claim(0, "10Gi", "10Gi"), true},
		"smaller, another way": {claim(0, "20479Mi", "20479Mi"), true},
		"equal":                {claim(0, "20480Mi", "20Gi"), false},
		"larger":               {claim(0, "21Gi", "21Gi"), false},
		"growing":              {claim(0, "20Gi", "10Gi"), false},
		"without a volume": {with(claim(0, "10Gi", ""),
			func(c *Claim) { c.Bound = false }), false},
	} {
		if got := c.claim.Growable(size); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
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
		"grown by others": {State{Claims: []Claim{claim(1, "30Gi", "30Gi"),
			claim(2, "40Gi", "40Gi")}}, v1alpha1.ReasonShrinkRefused,
			[]string{"data-1 of broker 1 requests 30Gi", "Set spec.storage.size to 40Gi"}},
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
