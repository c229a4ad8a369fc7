package remote

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

const (
	// imageBytesMax limits the size of a message to a broker. An image of 100,000 partitions needs
	// about 30 MB.
	imageBytesMax = 128 << 20
	// requestBytesMax limits the size of a message to the store. A ReportServing request lists all
	// partitions that a broker leads.
	requestBytesMax = 32 << 20
	// heartbeatInterval is the time between a broker's heartbeats.
	heartbeatInterval = time.Second
	// sessionTimeout is how long the store waits for a message from a broker. It equals the duration
	// of a broker's Lease on Kubernetes.
	sessionTimeout = 6 * time.Second
	// requestsMax is the maximum number of concurrent requests of one broker.
	requestsMax = 64
)

// These are the operations of requests.
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
	opCluster   = "alterCluster"
	opGrow      = "createPartitions"
	opReassign  = "reassign"
	opElect     = "electPreferred"
	opUser      = "changeUser"
	opScram     = "alterScram"
	opRemoved   = "recordRemoved"
)

// request is a message from the broker. Fields that its operation does not use are absent.
type request struct {
	// ID is repeated in the reply. If it is 0, the broker expects no reply.
	ID     uint64                  `json:"id,omitempty"`
	Op     string                  `json:"op"`
	Self   *metadata.Broker        `json:"self,omitempty"`
	Served []metadata.Served       `json:"served,omitempty"`
	Change []metadata.ISRChange    `json:"change,omitempty"`
	Create *metadata.NewTopic      `json:"create,omitempty"`
	Name   string                  `json:"name,omitempty"`
	Alter  *metadata.TopicChange   `json:"alter,omitempty"`
	Grow   *metadata.NewPartitions `json:"grow,omitempty"`
	User   *metadata.UserChange    `json:"user,omitempty"`
	Scram  *metadata.ScramChange   `json:"scram,omitempty"`
	// Cluster is the change for operation opCluster.
	Cluster *metadata.ClusterChange `json:"cluster,omitempty"`
	Moves   []move                  `json:"moves,omitempty"`
	Elect   []metadata.PartitionRef `json:"elect,omitempty"`
	// Removed contains the partitions for operation opRemoved.
	Removed []metadata.RetainedPartition `json:"removed,omitempty"`
	// Volume is the broker's last report of its volume, for operation opHeartbeat.
	Volume *v1alpha1.BrokerVolume `json:"volume,omitempty"`
}

// move is a metadata.Move in a form whose JSON distinguishes an empty list of replicas from nil.
type move struct {
	metadata.PartitionRef
	Replicas   []int32 `json:"replicas"`
	SameNumber bool    `json:"sameNumber,omitempty"`
}

// reply is a message from the store: an image, or the response to a request.
type reply struct {
	ID    uint64          `json:"id,omitempty"`
	Image *metadata.Image `json:"image,omitempty"` // image without its indexes
	Topic *metadata.Topic `json:"topic,omitempty"`
	Error string          `json:"error,omitempty"`
	// Kind is the error's index in kinds plus 1, or 0 if the error is of no known kind.
	Kind  int    `json:"kind,omitempty"`
	Parts []part `json:"parts,omitempty"`
}

// part is the outcome of one change in a request that contains several changes.
type part struct {
	Error string `json:"error,omitempty"`
	Kind  int    `json:"kind,omitempty"`
	// PartitionEpoch is the partition epoch after an ISR change that was made.
	PartitionEpoch int64 `json:"partitionEpoch,omitempty"`
}

// kinds contains the errors that callers distinguish. Both ends run the same binary, so they use
// the same indexes.
var kinds = []error{
	metadata.ErrTopicExists, metadata.ErrTopicNotFound, metadata.ErrInvalidTopicName,
	metadata.ErrInvalidPartitions,
	metadata.ErrInvalidReplication, metadata.ErrInvalidSettings, metadata.ErrISRConflict,
	metadata.ErrPolicy, metadata.ErrUnknownPartition, metadata.ErrInvalidAssignment,
	metadata.ErrNoReassignment, metadata.ErrElectionNotNeeded,
	metadata.ErrPreferredUnavailable, metadata.ErrUnavailable, metadata.ErrInvalidProperty,
	metadata.ErrUnknownUser,
}

// fail sets the reply's error.
func (r *reply) fail(err error) {
	p := partOf(err)
	r.Error, r.Kind = p.Error, p.Kind
}

// err returns the reply's error, or nil.
func (r *reply) err() error { return part{Error: r.Error, Kind: r.Kind}.err() }

// partOf encodes an error, which may be nil.
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

// err returns the encoded error, or nil.
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

// storeError is an error of the store that the broker has decoded.
type storeError struct {
	text string
	kind error // optional
}

func (e *storeError) Error() string { return e.text }
func (e *storeError) Unwrap() error { return e.kind }

// writeFrame writes a message in one write: its length in 4 bytes, big-endian, and then JSON.
func writeFrame(w io.Writer, message any) error {
	frame := bytes.NewBuffer(make([]byte, 4))
	if err := json.NewEncoder(frame).Encode(message); err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	binary.BigEndian.PutUint32(frame.Bytes(), uint32(frame.Len()-4))
	_, err := w.Write(frame.Bytes())
	return err
}

// readFrame reads a message of at most bytesMax bytes. After an error the connection cannot be
// used.
func readFrame(r io.Reader, bytesMax int, message any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(length[:]))
	if size > int64(bytesMax) {
		return fmt.Errorf("message of %d bytes exceeds the limit of %d", size, bytesMax)
	}
	// The buffer grows as bytes arrive. It is not allocated with the announced length.
	var content bytes.Buffer
	if n, err := io.CopyN(&content, r, size); err != nil {
		return fmt.Errorf("read message of %d bytes: ended after %d: %w", size, n, err)
	}
	decoder := json.NewDecoder(&content)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(message); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	return nil
}
