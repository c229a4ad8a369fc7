package remote

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

const (
	// imageBytesMax bounds what a broker takes: an image of 100,000 partitions has some 30 MB.
	imageBytesMax = 128 << 20
	// requestBytesMax bounds what the store takes: Serving tells of all partitions that one broker
	// leads.
	requestBytesMax = 32 << 20
	// heartbeatInterval is how often a broker says that it lives.
	heartbeatInterval = time.Second
	// sessionTimeout is how long the store waits for such a word, as long as a broker's Lease lasts
	// on Kubernetes.
	sessionTimeout = 6 * time.Second
	// requestsMax is how many requests of one broker are under way at once.
	requestsMax = 64
)

// What a request asks for.
const (
	opRun       = "run"
	opStop      = "stop"
	opHeartbeat = "heartbeat"
	opServing   = "serving"
	opChangeISR = "changeISR"
	opLeave     = "leave"
	opCreate    = "createTopic"
	opDelete    = "deleteTopic"
	opAlter     = "alterTopic"
	opGrow      = "createPartitions"
	opReassign  = "reassign"
	opElect     = "electPreferred"
)

// request is a frame of the broker's. Fields that its op has no use for are absent.
type request struct {
	// the reply has the same; 0: none is wanted
	ID     uint64                  `json:"id,omitempty"`
	Op     string                  `json:"op"`
	Self   *metadata.Broker        `json:"self,omitempty"`
	Served []metadata.Served       `json:"served,omitempty"`
	Change []metadata.ISRChange    `json:"change,omitempty"`
	Create *metadata.NewTopic      `json:"create,omitempty"`
	Name   string                  `json:"name,omitempty"`
	Alter  *metadata.TopicChange   `json:"alter,omitempty"`
	Grow   *metadata.NewPartitions `json:"grow,omitempty"`
	Moves  []move                  `json:"moves,omitempty"`
	Elect  []metadata.PartitionRef `json:"elect,omitempty"`
}

// move is a metadata.Move: JSON would make an empty list of one that is nil, and that means another
// thing.
type move struct {
	metadata.PartitionRef
	Replicas []int32 `json:"replicas"`
}

// reply is a frame of the store's: an image, or the answer to a request.
type reply struct {
	ID    uint64          `json:"id,omitempty"`
	Image *metadata.Image `json:"image,omitempty"` // without its indexes
	Topic *metadata.Topic `json:"topic,omitempty"`
	Error string          `json:"error,omitempty"`
	Kind  int             `json:"kind,omitempty"` // 1 + the place in kinds; 0: of no known kind
	Parts []part          `json:"parts,omitempty"`
}

// part is what became of one of several things that a request asks for.
type part struct {
	Error string `json:"error,omitempty"`
	Kind  int    `json:"kind,omitempty"`
}

// kinds are the errors that callers branch on; both ends are of one binary, so their places do.
var kinds = []error{
	metadata.ErrTopicExists, metadata.ErrTopicNotFound, metadata.ErrInvalidTopicName,
	metadata.ErrInvalidPartitions,
	metadata.ErrInvalidReplication, metadata.ErrInvalidSettings, metadata.ErrISRConflict,
	metadata.ErrPolicy, metadata.ErrUnknownPartition, metadata.ErrInvalidAssignment,
	metadata.ErrNoReassignment, metadata.ErrElectionNotNeeded,
	metadata.ErrPreferredUnavailable, metadata.ErrUnavailable,
}

// fail puts an error into a reply.
func (r *reply) fail(err error) {
	p := partOf(err)
	r.Error, r.Kind = p.Error, p.Kind
}

// err is the way back; nil if there was none.
func (r *reply) err() error { return part{r.Error, r.Kind}.err() }

// partOf writes an error, which may be nil.
func partOf(err error) (p part) {
	if err == nil {
		return part{}
	}
	p.Error = err.Error()
	for i, kind := range kinds {
		if errors.Is(err, kind) {
			p.Kind = i + 1
		}
	}
	return p
}

// err is the way back.
func (p part) err() error {
	if p.Error == "" {
		return nil
	}
	e := &storeError{text: p.Error}
	if p.Kind >= 1 && p.Kind <= len(kinds) {
		e.kind = kinds[p.Kind-1]
	}
	return e
}

// storeError is an error of the store as its broker sees it.
type storeError struct {
	text string
	kind error // may be nil
}

func (e *storeError) Error() string { return e.text }
func (e *storeError) Unwrap() error { return e.kind }

// writeFrame writes a message: its length in 4 bytes, big-endian, then JSON, in one write.
func writeFrame(w io.Writer, message any) error {
	frame := bytes.NewBuffer(make([]byte, 4))
	if err := json.NewEncoder(frame).Encode(message); err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	binary.BigEndian.PutUint32(frame.Bytes(), uint32(frame.Len()-4))
	_, err := w.Write(frame.Bytes())
	return err
}

// readFrame reads a message of at most bytesMax. An error leaves the connection of no use.
func readFrame(r io.Reader, bytesMax int, message any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(length[:]))
	if size > int64(bytesMax) {
		return fmt.Errorf("a message of %d bytes, at most %d are taken", size, bytesMax)
	}
	// Grown as it comes: a length alone makes nobody allocate.
	var content bytes.Buffer
	if n, err := io.CopyN(&content, r, size); err != nil {
		return fmt.Errorf("a message of %d bytes ends after %d: %w", size, n, err)
	}
	decoder := json.NewDecoder(&content)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(message); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	return nil
}
