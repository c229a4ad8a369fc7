package report

// Passes is the response of GET /api/v1/passes: the cleaner's passes on the brokers of this
// process, newest first. A broker keeps its last PassesMax passes, even across restarts.
type Passes struct {
	Passes []PartitionPass `json:"passes"`
	// Next is the value of parameter before with which a request returns older passes; absent if there
	// are none.
	Next *int64 `json:"next,omitempty"`
}

// These constants limit the passes that a broker keeps.
const (
	PassesMax       = 256  // passes, including running ones
	PassStepsMax    = 1024 // steps of a pass
	StepSegmentsMax = 1024 // segments in all steps of a pass
)

// PartitionPass is one pass over one partition replica.
type PartitionPass struct {
	// ID identifies the pass on its broker. Later passes have higher ids, even across restarts.
	ID     int64  `json:"id"`
	Broker int32  `json:"broker"`
	Topic  string `json:"topic"`
	// TopicID distinguishes the topic from an earlier topic with the same name.
	TopicID   string `json:"topicId"`
	Partition int32  `json:"partition"`
	Pass
	// Steps contains the steps, in order of time, if the request asked for them. StepCount is the
	// number of steps.
	Steps     []Step `json:"steps,omitempty"`
	StepCount int    `json:"stepCount"`
	// OmittedSteps is the number of steps that the broker did not keep because the pass was long or is
	// old.
	OmittedSteps int `json:"omittedSteps,omitempty"`
}

// These are the values of Step.Kind, in their order within a pass. If the log's bitmaps exceed the
// memory budget, a pass repeats these steps for each window. In a window, each rewrite group
// repeats group, read and replace.
const (
	StepAnnounce = "announce" // the pass has chosen the segments to rewrite
	StepGroup    = "group"    // the rewrite of neighbouring segments begins
	StepRead     = "read"     // the rewrite has read a segment up to a position
	StepReplace  = "replace"  // new segments have replaced those of the group
	StepEnd      = "end"      // the pass has ended
)

// Step is one step of a pass.
type Step struct {
	// After is the time since the pass began, in seconds.
	After float64 `json:"afterSeconds"`
	// Kind is one of the Step constants.
	Kind string `json:"kind"`
	// Segments depends on the kind: for announce, the segments of the window as the pass found them;
	// for group, the segments to rewrite; for replace, the new segments.
	Segments []StepSegment `json:"segments,omitempty"`
	// OmittedSegments is the number of segments that are missing from Segments, because a pass keeps
	// at most StepSegmentsMax segments.
	OmittedSegments int `json:"omittedSegments,omitempty"`
	// Base and Position are present in steps of kind read. The segment with base offset Base was read
	// up to Position.
	Base     *int64 `json:"base,omitempty"`
	Position int64  `json:"position,omitempty"`
	// From and To are present in steps of kinds group and replace. Every segment with a base offset in
	// [From, To) was replaced.
	From *int64 `json:"from,omitempty"`
	To   *int64 `json:"to,omitempty"`
}

// StepSegment is a segment in a step.
type StepSegment struct {
	Base         int64 `json:"base"`
	Bytes        int64 `json:"bytes"`
	GarbageBytes int64 `json:"garbageBytes"`
	Chosen       bool  `json:"chosen,omitempty"`
	Forced       bool  `json:"forced,omitempty"`
}

// These are the names of the events of GET /api/v1/events. An event's data is one line of JSON: a
// SegmentsEvent, a PartitionPass, a StepEvent, or a ReadyEvent.
const (
	// EventSegments reports new, changed and removed segments, at most once a second for each replica.
	// It occurs only for the topics of the parameter topic.
	EventSegments = "segments"
	// EventPass reports that a pass has begun or ended.
	EventPass = "pass"
	// EventStep reports a step immediately. A stream omits a step of kind read that follows another
	// read step of the same pass within 50 ms.
	EventStep = "step"
	// EventReady ends the snapshot at the beginning of each stream. The snapshot contains all
	// segments, and the running passes with their steps so far.
	EventReady = "ready"
)

// SegmentsEvent is the data of an event of kind segments.
type SegmentsEvent struct {
	SegmentsOf
	// Whole is true if all earlier rows of this replica are invalid. This is the case for the first
	// event of a snapshot, and after the log was replaced.
	Whole bool `json:"whole"`
	// Segments contains new and changed rows. Removed contains base offsets.
	Segments []Segment `json:"segments"`
	Removed  []int64   `json:"removed"`
	// Gone is true if this broker no longer has the replica.
	Gone bool `json:"gone,omitempty"`
}

// StepEvent is the data of an event of kind step.
type StepEvent struct {
	Broker    int32  `json:"broker"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Pass      int64  `json:"pass"` // PartitionPass.ID
	Step
}

// ReadyEvent is the data of an event of kind ready.
type ReadyEvent struct {
	// Resumed is true if the stream continues after the request's Last-Event-ID, without a snapshot.
	Resumed bool `json:"resumed"`
}
