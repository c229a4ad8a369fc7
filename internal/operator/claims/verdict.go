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
	Resized bool // true if the condition is True
	Reason  string
	Message string
}

// State is the state of a LogCluster's claims after the operator has requested their expansion.
type State struct {
	Size     resource.Quantity // spec.storage.size
	Claims   []Claim           // by broker id
	Refusals map[int32]Refusal // by broker id
	// Restarts contains the brokers that are being restarted so that their file systems grow.
	Restarts map[int32]bool
}

// Verdict describes the most severe state of any claim, and what to do about it.
func (s State) Verdict() Verdict {
	for _, describe := range []func(State) Verdict{State.cannotExpand, State.notLowered, State.failed,
		State.lowered, State.pending, State.larger} {
		if v := describe(s); v.Reason != "" {
			return v
		}
	}
	return Verdict{Resized: true, Reason: v1alpha1.ReasonResized,
		Message: fmt.Sprintf("Every volume has at least %s.", s.Size.String())}
}

// filter returns the claims for which holds returns true.
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
			"If the size is a mistake, set spec.storage.size to %s. New brokers get volumes of %s.",
		first.Name, first.Broker, first.Requested.String(), s.Size.String(), class, others(found),
		largest(s.Claims), s.Size.String())}
}

// largest returns the largest capacity among the claims.
func largest(claims []Claim) string {
	var largest resource.Quantity
	for _, c := range claims {
		if c.Capacity.Cmp(largest) > 0 {
			largest = c.Capacity
		}
	}
	return largest.String()
}

// notLowered describes expansions that the operator cannot withdraw, because Kubernetes does not
// allow it.
func (s State) notLowered() Verdict {
	found := s.filter(func(c Claim) bool {
		return c.Requested.Cmp(s.Size) > 0 && s.Refusals[c.Broker].Message != ""
	})
	if len(found) == 0 {
		return Verdict{}
	}
	first := found[0]
	return Verdict{Reason: v1alpha1.ReasonShrinkRefused, Message: fmt.Sprintf(
		"Claim %s of broker %d requests %s, which its volume of %s does not have, and the request "+
			"cannot be lowered%s: %s. Kubernetes 1.34 and later lower it. Until then it is kept.",
		first.Name, first.Broker, first.Requested.String(), first.Capacity.String(), others(found),
		strings.TrimSuffix(s.Refusals[first.Broker].Message, "."))}
}

// lowered describes requests that a user has lowered. The operator does not raise them again.
func (s State) lowered() Verdict {
	found := s.filter(func(c Claim) bool { return c.lowered(s.Size) })
	if len(found) == 0 {
		return Verdict{}
	}
	first := found[0]
	return Verdict{Reason: v1alpha1.ReasonGrowthWithdrawn, Message: fmt.Sprintf(
		"The request of claim %s of broker %d was lowered from %s to %s, so it does not grow%s. Set "+
			"spec.storage.size to %s, or to another size that the driver can provide. To grow it to "+
			"%s after all, run: kubectl annotate pvc %s %s-", first.Name, first.Broker,
		s.Size.String(), first.Requested.String(), others(found), first.Requested.String(),
		s.Size.String(), first.Name, v1alpha1.AnnotationRequestedSize)}
}

func (s State) failed() Verdict {
	found := s.filter(func(c Claim) bool { return s.problem(c) != "" })
	if len(found) == 0 {
		return Verdict{}
	}
	first := found[0]
	return Verdict{Reason: v1alpha1.ReasonResizeFailed, Message: fmt.Sprintf(
		"Claim %s of broker %d does not grow to %s%s: %s. It is tried again. If the size is a mistake, "+
			"set spec.storage.size to a smaller one, but not below %s. For details run: kubectl "+
			"describe pvc %s", first.Name, first.Broker, s.Size.String(), others(found),
		strings.TrimSuffix(s.problem(first), "."), largest(s.Claims), first.Name)}
}

// problem returns the reason why a claim has not been expanded, or "" if nothing failed. It does
// not cover a StorageClass that forbids expansion.
func (s State) problem(c Claim) string {
	if refusal, ok := s.Refusals[c.Broker]; ok {
		return refusal.Message
	}
	if c.resizing() && c.Capacity.Cmp(s.Size) < 0 {
		return c.ResizeError
	}
	return ""
}

func (s State) pending() Verdict {
	small := s.filter(func(c Claim) bool {
		return c.resizing() && c.Capacity.Cmp(s.Size) < 0 ||
			c.Requested.Cmp(s.Size) < 0
	})
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
	found := s.filter(func(c Claim) bool {
		return c.Requested.Cmp(s.Size) > 0 && !c.withdrawn(s.Size)
	})
	if len(found) == 0 {
		return Verdict{}
	}
	first := found[0]
	if !first.Bound {
		return Verdict{Reason: v1alpha1.ReasonShrinkRefused, Message: fmt.Sprintf(
			"Claim %s of broker %d requests %s, more than spec.storage.size, %s%s, and has no volume "+
				"yet. Kubernetes cannot change it. To let it be made again, run: kubectl delete pvc "+
				"%s --wait=false; kubectl delete pod %s", first.Name, first.Broker,
			first.Requested.String(), s.Size.String(), others(found), first.Name,
			strings.TrimPrefix(first.Name, "data-"))}
	}
	for _, c := range found {
		if c.Capacity.Cmp(s.Size) > 0 {
			return Verdict{Reason: v1alpha1.ReasonShrinkRefused, Message: fmt.Sprintf(
				"Claim %s of broker %d has a volume of %s, more than spec.storage.size, %s%s. Volumes "+
					"cannot shrink, so it is kept. Set spec.storage.size to %s, so that all brokers have "+
					"volumes of one size.", c.Name, c.Broker, c.Capacity.String(), s.Size.String(),
				others(found), largest(found))}
		}
	}
	return Verdict{Reason: v1alpha1.ReasonShrinkRefused, Message: fmt.Sprintf(
		"Claim %s of broker %d requests %s, more than spec.storage.size, %s%s, and the operator has "+
			"not requested it. Set spec.storage.size to %s, or lower the request to a size above %s, "+
			"which Kubernetes 1.34 and later allow: kubectl edit pvc %s", first.Name, first.Broker,
		first.Requested.String(), s.Size.String(), others(found), first.Requested.String(),
		first.Capacity.String(), first.Name)}
}

// others describes how many claims, besides the first one, are in the same state.
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
