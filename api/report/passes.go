package report

// Passes is the response of GET /api/v1/passes: the passes of the cleaner on the brokers of this
// process, the newest first. A broker keeps its last PassesMax passes, also across restarts.
type Passes struct {
	Passes []PartitionPass `json:"passes"`
	// Next is the parameter before of the request for older passes; absent if there are none.
	Next *int64 `json:"next,omitempty"`
}

// Limits of the passes that a broker keeps.
const (
	PassesMax       = 256  // passes, including running ones
	PassStepsMax    = 1024 // steps of a pass
	StepSegmentsMax = 1024 // segments in all steps of a pass
)

// PartitionPass is one pass over one partition replica.
type PartitionPass struct {
	// ID identifies the pass on its broker. It ascends with the time at which passes began, also
	// across restarts.
	ID     int64  `json:"id"`
	Broker int32  `json:"broker"`
	Topic  string `json:"topic"`
	// TopicID distinguishes the topic from an earlier one with the same name; absent in passes that
	// an earlier version of the broker has recorded.
	TopicID   string `json:"topicId,omitempty"`
	Partition int32  `json:"partition"`
	Pass
	// Steps are present if they were requested, ascending by time. StepCount is their number.
	Steps     []Step `json:"steps,omitempty"`
	StepCount int    `json:"stepCount"`
	// OmittedSteps is the number of steps that the broker did not keep, because the pass was long or
	// is old.
	OmittedSteps int `json:"omittedSteps,omitempty"`
}

// Values of Step.Kind, in their order within a pass. A pass over a log whose bitmaps exceed the
// memory budget repeats them for each window; in a window each rewrite group repeats group, read
// and replace.
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
	// Segments are, by kind: announce, the segments of the window as the pass found them; group,
	// the segments to be rewritten; replace, the new segments.
	Segments []StepSegment `json:"segments,omitempty"`
	// OmittedSegments is the number of segments that are missing in Segments, because a pass keeps
	// at most StepSegmentsMax.
	OmittedSegments int `json:"omittedSegments,omitempty"`
	// Base and Position are present in steps of kind read: the segment with this base offset was read
	// up to this position.
	Base     *int64 `json:"base,omitempty"`
	Position int64  `json:"position,omitempty"`
	// From and To are present in steps of kinds group and replace. They are the range of offsets:
	// every segment with a base offset in [From, To) was replaced.
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

// Names of the events of GET /api/v1/events. The data of an event is one line of JSON: a
// SegmentsEvent, a PartitionPass, a StepEvent, or a ReadyEvent.
const (
	// EventSegments reports new, changed and removed segments, at most once a second for each
	// replica. Only the topics of the parameter topic have such events.
	EventSegments = "segments"
	// EventPass reports that a pass has begun or ended.
	EventPass = "pass"
	// EventStep reports a step immediately. A stream omits a step of kind read that follows another
	// one of the same pass within 50 ms.
	EventStep = "step"
	// EventReady ends the snapshot with which each stream begins: all segments, and the running
	// passes with their steps so far.
	EventReady = "ready"
)

// SegmentsEvent is the data of an event of kind segments.
type SegmentsEvent struct {
	SegmentsOf
	// Whole is true if all earlier rows of this replica are void: in the first event of a snapshot,
	// and after the log was replaced.
	Whole bool `json:"whole"`
	// Segments are new and changed rows; Removed are base offsets.
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
	// Resumed is true if the stream continues after the request's Last-Event-ID without a snapshot.
	Resumed bool `json:"resumed"`
}
