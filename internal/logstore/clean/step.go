package clean

import "heartwood.dev/heartwood/internal/logstore/segment"

// StepKind is the kind of a Step.
type StepKind int8

// The kinds of steps, in their order within a pass's window. Each rewrite group repeats the last
// three kinds.
const (
	StepAnnounce StepKind = iota // the pass has decided which segments it rewrites
	StepGroup                    // the rewrite of a group begins
	StepRead                     // the rewrite has processed a segment up to a position
	StepReplace                  // the new segments have replaced the group
)

// Step is a step of a pass's rewrites. Env.Stage may keep its slices.
type Step struct {
	Kind StepKind
	// Segments are the window's segments (StepAnnounce), the group's segments (StepGroup), or the
	// new segments (StepReplace).
	Segments []StepSegment
	// Base and Position are set in steps of kind StepRead: the segment with this base offset was
	// processed up to this position.
	Base, Position int64
	// From and To are set in steps of kinds StepGroup and StepReplace: the group contains the segments
	// with base offsets in [From, To).
	From, To int64
}

// StepSegment is a segment in a Step. Chosen is set if the pass rewrites the segment, alone or
// together with its neighbours. Forced is set if the pass must rewrite the segment even if this
// frees little space.
type StepSegment struct {
	Base, SizeBytes, DeadBytes int64
	Chosen, Forced             bool
}

// announce reports a window's segments, and which of them will be rewritten.
func (p *pass) announce(plans []*plan, groups []rewriteGroup) {
	if p.job.Env.Stage == nil {
		return
	}
	step := Step{Kind: StepAnnounce, Segments: make([]StepSegment, 0, len(plans))}
	for _, plan := range plans {
		step.Segments = append(step.Segments, plan.step(false))
	}
	for _, group := range groups {
		for _, plan := range group {
			step.Segments[plan.index-plans[0].index].Chosen = true
		}
	}
	p.job.Env.Stage(step)
}

// step returns the segment of a plan in a step.
func (p *plan) step(chosen bool) StepSegment {
	return StepSegment{Base: p.segment.Base(), SizeBytes: p.segment.SizeBytes(),
		DeadBytes: p.deadBytes, Chosen: chosen, Forced: p.forced()}
}

// beginGroup reports that the rewrite of a group begins.
func (p *pass) beginGroup(group rewriteGroup) {
	if p.job.Env.Stage == nil {
		return
	}
	step := p.stepOf(StepGroup, group)
	for _, plan := range group {
		step.Segments = append(step.Segments, plan.step(true))
	}
	p.job.Env.Stage(step)
}

// replacement returns a step which reports that new segments have replaced a group.
func (p *pass) replacement(group rewriteGroup, cleaned []*segment.Segment) Step {
	step := p.stepOf(StepReplace, group)
	for _, s := range cleaned {
		step.Segments = append(step.Segments, StepSegment{Base: s.Base(), SizeBytes: s.SizeBytes()})
	}
	return step
}

// stepOf returns a step without segments.
func (p *pass) stepOf(kind StepKind, group rewriteGroup) Step {
	step := Step{Kind: kind, From: group[0].segment.Base(), To: p.job.Bound}
	if next := group[len(group)-1].index + 1; next < len(p.plans) {
		step.To = p.plans[next].segment.Base()
	}
	return step
}
