package claims

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Verdict is the content of condition StorageResized.
type Verdict struct {
	Resized bool // the status of the condition
	Reason  string
	Message string
}

// State is the state of all claims of a LogCluster after the operator has asked for their growth.
type State struct {
	Size     resource.Quantity // spec.storage.size
	Claims   []Claim           // by broker id
	Refusals map[int32]Refusal // by broker id
	// Restarts are the brokers that are restarted so that their file systems grow.
	Restarts map[int32]bool
}

// Verdict describes the most severe state of a claim, with the next step.
func (s State) Verdict() Verdict {
	for _, describe := range []func(State) Verdict{State.cannotExpand, State.failed, State.pending,
		State.larger} {
		if v := describe(s); v.Reason != "" {
			return v
		}
	}
	return Verdict{Resized: true, Reason: v1alpha1.ReasonResized,
		Message: fmt.Sprintf("Every volume has at least %s.", s.Size.String())}
}

// filter returns the claims for which a condition holds.
func (s State) filter(holds func(Claim) bool) (found []Claim) {
	for _, c := range s.Claims {
		if holds(c) {
			found = append(found, c)
		}
	}
	return found
}

func (s State) cannotExpand() Verdict {
	found := s.filter(func(c Claim) bool { return s.Refusals[c.Broker].ByClass })
	if len(found) == 0 {
		return Verdict{}
	}
	first := found[0]
	class := "it has no StorageClass"
	if first.Class != "" {
		class = fmt.Sprintf("its StorageClass %s does not allow it", first.Class)
	}
	return Verdict{Reason: v1alpha1.ReasonClassCannotExpand, Message: fmt.Sprintf(
		"Claim %s of broker %d requests %s and cannot grow to %s, because %s%s. If the driver of "+
			"the class can expand volumes, set its allowVolumeExpansion to true; else set "+
			"spec.storage.className to another class, which replaces the volumes broker by broker. "+
			"New brokers get volumes of %s.", first.Name, first.Broker, first.Requested.String(), s.Size.String(),
		class, others(found), s.Size.String())}
}

func (s State) failed() Verdict {
	found := s.filter(func(c Claim) bool { return s.problem(c) != "" })
	if len(found) == 0 {
		return Verdict{}
	}
	first := found[0]
	return Verdict{Reason: v1alpha1.ReasonResizeFailed, Message: fmt.Sprintf(
		"Claim %s of broker %d does not grow to %s%s: %s. It is tried again. For details run: "+
			"kubectl describe pvc %s", first.Name, first.Broker, s.Size.String(), others(found),
		strings.TrimSuffix(s.problem(first), "."), first.Name)}
}

// problem returns why a claim has not grown, unless its class is the reason; "" if nothing failed.
func (s State) problem(c Claim) string {
	if refusal, ok := s.Refusals[c.Broker]; ok {
		return refusal.Message
	}
	if c.resizing() {
		return c.ResizeError
	}
	return ""
}

func (s State) pending() Verdict {
	small := s.filter(func(c Claim) bool { return c.Requested.Cmp(s.Size) < 0 || c.resizing() })
	if len(small) == 0 {
		return Verdict{}
	}
	v := Verdict{Reason: v1alpha1.ReasonResizing}
	first := small[0]
	switch {
	case len(s.Restarts) > 0:
		for _, c := range small {
			if s.Restarts[c.Broker] {
				first = c
				break
			}
		}
		v.Message = fmt.Sprintf("The volume of claim %s has grown to %s. Broker %d is restarted, "+
			"as soon as its partitions allow it, so that its file system grows%s.", first.Name,
			first.Requested.String(), first.Broker, others(small))
	case first.Replaced && first.Requested.Cmp(s.Size) < 0:
		v.Message = fmt.Sprintf("Claim %s of broker %d requests %s. The claim of another StorageClass "+
			"that replaces it requests %s%s.", first.Name, first.Broker, first.Requested.String(),
			s.Size.String(), others(small))
	case !first.Bound:
		v.Message = fmt.Sprintf("Claim %s of broker %d requests %s and grows to %s when it has a "+
			"volume%s.", first.Name, first.Broker, first.Requested.String(), s.Size.String(),
			others(small))
	case first.FileSystemPending:
		v.Message = fmt.Sprintf("The volume of claim %s has grown to %s, and the file system of "+
			"broker %d is to follow%s.", first.Name, first.Requested.String(), first.Broker,
			others(small))
	default:
		v.Message = fmt.Sprintf("The volume of claim %s of broker %d is growing from %s to %s%s.",
			first.Name, first.Broker, first.Capacity.String(), s.Size.String(), others(small))
	}
	return v
}

func (s State) larger() Verdict {
	found := s.filter(func(c Claim) bool { return c.Requested.Cmp(s.Size) > 0 })
	if len(found) == 0 {
		return Verdict{}
	}
	first, largest := found[0], found[0].Requested
	for _, c := range found {
		if c.Requested.Cmp(largest) > 0 {
			largest = c.Requested
		}
	}
	return Verdict{Reason: v1alpha1.ReasonShrinkRefused, Message: fmt.Sprintf(
		"Claim %s of broker %d requests %s, more than spec.storage.size, %s%s. Volumes cannot "+
			"shrink, so it is kept. Set spec.storage.size to %s, so that all brokers have volumes of "+
			"one size.", first.Name, first.Broker, first.Requested.String(), s.Size.String(),
		others(found), largest.String())}
}

// others says how many claims besides the first are in the same state.
func others(found []Claim) string {
	if len(found) == 1 {
		return ""
	}
	ids := make([]string, 0, len(found)-1)
	for _, c := range found[1:] {
		ids = append(ids, strconv.Itoa(int(c.Broker)))
	}
	return fmt.Sprintf(" (also brokers %s)", strings.Join(ids, ", "))
}
