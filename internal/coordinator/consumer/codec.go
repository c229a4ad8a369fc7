package consumer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// These are the kinds of a group's records. A kind is the version of the record's key. The formats
// are Kafka's coordinator record types (Kafka's JSON schemas;
// docs/internals/format/consumer-groups.md).
const (
	kindGroup = 3
	// kindTopics contains partition metadata. Only Kafka 4.0 writes it, and it is ignored. Kafka 4.1
	// replaced it with a hash in kindGroup (KIP-1101).
	kindTopics           = 4
	kindMember           = 5
	kindAssignment       = 6
	kindTarget           = 7
	kindCurrent          = 8
	kindExpression       = 16
	valueVersion   int16 = 0
)

// ErrCorrupt is returned if a stored record cannot be decoded.
var ErrCorrupt = errors.New("corrupt record of a consumer group")

// Record is a record to store. If Value is nil, the record is a tombstone.
type Record struct {
	Key, Value []byte
}

// Key is the key of a group's record.
type Key struct {
	Kind  int16
	Group string
	ID    string // member id or expression; "" if a group has only one record of the kind
}

// Owns reports whether ReadKey can decode keys of the given version.
func Owns(keyVersion int16) bool {
	return keyVersion >= kindGroup && keyVersion <= kindCurrent || keyVersion == kindExpression
}

// perMember reports whether keys of the given kind contain an ID.
func perMember(kind int16) bool {
	return kind == kindMember || kind == kindTarget || kind == kindCurrent || kind == kindExpression
}

func (k Key) append() []byte {
	key := kbin.AppendString(kbin.AppendInt16(nil, k.Kind), k.Group)
	if perMember(k.Kind) {
		key = kbin.AppendString(key, k.ID)
	}
	return key
}

// ReadKey decodes a key. Owns must return true for the key's version.
func ReadKey(key []byte) (Key, error) {
	r := kbin.Reader{Src: key}
	k := Key{Kind: r.Int16(), Group: r.String()}
	if perMember(k.Kind) {
		k.ID = r.String()
	}
	if err := r.Complete(); err != nil {
		return Key{}, fmt.Errorf("%w: key: %w", ErrCorrupt, err)
	}
	return k, nil
}

// groupValue is the value of a record of kindGroup.
type groupValue struct {
	epoch int32
	hash  int64 // hash of the subscribed topics; 0 if there are none
}

func (v groupValue) append() []byte {
	value := kbin.AppendInt32(kbin.AppendInt16(nil, valueVersion), v.epoch)
	if v.hash == 0 {
		return kbin.AppendUvarint(value, 0)
	}
	value = append(value, 1, 0, 8) // one tagged field: tag 0, 8 bytes
	return kbin.AppendInt64(value, v.hash)
}

// Profile is the value of a record of kindMember: what a member states about itself in its
// heartbeats.
type Profile struct {
	Instance, Rack       string // instance id and rack; "" if there is none
	ClientID, ClientHost string
	// Topics contains the topics to which the member subscribes by name; sorted, without duplicates.
	Topics     []string
	Expression string // regular expression for further topics; "" if there is none
	Rebalance  time.Duration
	Assignor   string // name of the preferred assignor; "" for no preference
}

func (p *Profile) append() []byte {
	value := kbin.AppendInt16(nil, valueVersion)
	value = kbin.AppendCompactNullableString(value, orNull(p.Instance))
	value = kbin.AppendCompactNullableString(value, orNull(p.Rack))
	value = kbin.AppendCompactString(value, p.ClientID)
	value = kbin.AppendCompactString(value, p.ClientHost)
	value = appendStrings(value, p.Topics)
	value = kbin.AppendCompactNullableString(value, orNull(p.Expression))
	value = kbin.AppendInt32(value, int32(p.Rebalance.Milliseconds()))
	value = kbin.AppendCompactNullableString(value, orNull(p.Assignor))
	return kbin.AppendUvarint(value, 0)
}

// assignmentValue is the value of a record of kindAssignment.
type assignmentValue struct {
	epoch      int32
	assignedMs int64 // time of the assignment; 0: unknown
}

func (v assignmentValue) append() []byte {
	value := kbin.AppendInt32(kbin.AppendInt16(nil, valueVersion), v.epoch)
	if v.assignedMs == 0 {
		return kbin.AppendUvarint(value, 0)
	}
	value = append(value, 1, 0, 8) // one tagged field: tag 0, 8 bytes
	return kbin.AppendInt64(value, v.assignedMs)
}

// appendTarget returns the value of a record of kindTarget.
func appendTarget(a assignor.Assignment) []byte {
	value := kbin.AppendCompactArrayLen(kbin.AppendInt16(nil, valueVersion), len(a))
	for _, topic := range a.Topics() {
		value = appendInts(kbin.AppendUuid(value, topic), a[topic])
		value = kbin.AppendUvarint(value, 0)
	}
	return kbin.AppendUvarint(value, 0)
}

// Current is the value of a record of kindCurrent: a member's reconciliation state. Previous is the
// member's previous epoch.
type Current struct {
	Epoch, Previous    int32
	Phase              Phase
	Assigned, Revoking Owned // assigned partitions, and partitions that the member must revoke
}

// Owned maps each partition to the assignment epoch in which the member got it.
type Owned map[assignor.TopicID]map[int32]int32

func (c *Current) append() []byte {
	value := kbin.AppendInt32(kbin.AppendInt16(nil, valueVersion), c.Epoch)
	value = kbin.AppendInt8(kbin.AppendInt32(value, c.Previous), int8(c.Phase))
	value = c.Revoking.append(c.Assigned.append(value))
	return kbin.AppendUvarint(value, 0)
}

func (o Owned) append(value []byte) []byte {
	value = kbin.AppendCompactArrayLen(value, len(o))
	for _, topic := range slices.SortedFunc(maps.Keys(o),
		func(a, b assignor.TopicID) int { return slices.Compare(a[:], b[:]) }) {
		partitions := slices.Sorted(maps.Keys(o[topic]))
		epochs := make([]int32, len(partitions))
		for i, partition := range partitions {
			epochs[i] = o[topic][partition]
		}
		value = appendInts(kbin.AppendUuid(value, topic), partitions)
		tag := appendInts(nil, epochs)
		value = append(value, 1, 0) // one tagged field: tag 0
		value = append(kbin.AppendUvarint(value, uint32(len(tag))), tag...)
	}
	return value
}

// Resolved is the value of a record of kindExpression: the topics that an expression matched.
type Resolved struct {
	Topics     []string // topic names, sorted
	Version    int64    // version of the metadata image; Heartwood stores 0
	ResolvedMs int64
}

func (v *Resolved) append() []byte {
	value := appendStrings(kbin.AppendInt16(nil, valueVersion), v.Topics)
	value = kbin.AppendInt64(kbin.AppendInt64(value, v.Version), v.ResolvedMs)
	return kbin.AppendUvarint(value, 0)
}

func appendStrings(dst []byte, all []string) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(all))
	for _, one := range all {
		dst = kbin.AppendCompactString(dst, one)
	}
	return dst
}

func appendInts(dst []byte, all []int32) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(all))
	for _, one := range all {
		dst = kbin.AppendInt32(dst, one)
	}
	return dst
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
