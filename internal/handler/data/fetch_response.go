package data

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// fetchAnswer is the content of a Fetch response.
type fetchAnswer struct {
	api.Outcome
	image    *metadata.Image
	replicas *replica.Set
	// listener is the client's listener. The response contains the brokers' endpoints on this
	// listener.
	listener    string
	request     *kmsg.FetchRequest
	results     []replica.FetchResult
	session     int32
	changedOnly bool // omit unchanged partitions; set only for followers
}

// fetchEncoder encodes a Fetch response. It leaves gaps for the records, which are sent as file
// ranges. kmsg is not used, because it cannot leave gaps, and uses reflection to compare the tagged
// structs of each partition.
type fetchEncoder struct {
	*fetchAnswer
	version  int16
	flexible bool
	follower bool
	out      []byte
	gaps     []gap
	leaders  leaders
}

// gap is the place of a file range in the response. position is the offset in fetchEncoder.out at
// which the range is inserted.
type gap struct {
	position int
	data     *logstore.Slice
}

// partitionBytes is the approximate size of an encoded partition without its records.
const partitionBytes = 64

func encodeFetch(answer *fetchAnswer) wire.Reply {
	if answer.changedOnly {
		answer.results = slices.DeleteFunc(answer.results,
			func(r replica.FetchResult) bool { return !r.MustRespond() })
	}
	// The results of a session are ordered by the time of their last change, but the partitions of a
	// topic must be adjacent.
	if answer.session != 0 {
		slices.SortStableFunc(answer.results,
			func(a, b replica.FetchResult) int { return cmp.Compare(a.ID.Topic, b.ID.Topic) })
	}
	e := newFetchEncoder(answer, len(answer.results))
	e.head(0)
	e.arrayLen(topicRuns(answer.results))
	for rest := answer.results; len(rest) > 0; {
		n := topicRun(rest)
		e.topic(rest[:n])
		rest = rest[n:]
	}
	e.endpoints()
	return e.reply()
}

// topicRun returns the number of leading results that belong to the same topic.
func topicRun(results []replica.FetchResult) int {
	n := 1
	for n < len(results) && results[n].Topic == results[0].Topic &&
		results[n].ID.Topic == results[0].ID.Topic {
		n++
	}
	return n
}

// topicRuns returns the number of runs of adjacent results with the same topic.
func topicRuns(results []replica.FetchResult) (n int) {
	for ; len(results) > 0; n++ {
		results = results[topicRun(results):]
	}
	return n
}

// topic encodes one topic and its partitions.
func (e *fetchEncoder) topic(results []replica.FetchResult) {
	if e.version >= 13 {
		e.out = append(e.out, results[0].Topic[:]...)
	} else {
		e.string(results[0].ID.Topic)
	}
	e.arrayLen(len(results))
	for i := range results {
		e.partition(&results[i])
	}
	e.tags()
}

// fetchFailed encodes the response to a request that failed as a whole. It contains an error code
// and no partitions.
func fetchFailed(answer *fetchAnswer, code int16) wire.Reply {
	e := newFetchEncoder(answer, 0)
	e.head(code)
	e.arrayLen(0)
	e.tags()
	return e.reply()
}

// newFetchEncoder returns an encoder with enough memory for the given number of partitions, so that
// most responses need only one allocation.
func newFetchEncoder(answer *fetchAnswer, partitions int) *fetchEncoder {
	version := answer.request.Version
	return &fetchEncoder{
		fetchAnswer: answer, version: version, flexible: version >= 12,
		follower: version >= 15 && answer.request.ReplicaState.ID >= 0,
		out:      make([]byte, 0, partitionBytes*(partitions+1)),
	}
}

// head encodes the fields before the topics. Versions below 7 have no field for an error of the
// whole request.
func (e *fetchEncoder) head(code int16) {
	e.out = kbin.AppendInt32(e.out, 0) // throttle time
	if e.version >= 7 {
		e.out = kbin.AppendInt16(e.out, code)
		e.out = kbin.AppendInt32(e.out, e.session)
	}
}

// partition encodes one partition, with a gap in place of its records. If the partition has an
// error, the offsets are -1, which clients treat as unknown.
func (e *fetchEncoder) partition(r *replica.FetchResult) {
	highWater, stable, start := r.HighWater, r.Stable, r.LogStart
	if r.Err != nil {
		highWater, stable, start = -1, -1, -1
	}
	e.out = kbin.AppendInt32(e.out, r.ID.Index)
	e.out = kbin.AppendInt16(e.out, e.Code(r.Err))
	e.out = kbin.AppendInt64(e.out, highWater)
	e.out = kbin.AppendInt64(e.out, stable)
	if e.version >= 5 {
		e.out = kbin.AppendInt64(e.out, start)
	}
	e.aborted(r.Data, e.request.IsolationLevel == 1)
	if e.version >= 11 {
		e.out = kbin.AppendInt32(e.out, r.PreferredReplica)
	}
	length := 0
	if r.Data != nil {
		length = r.Data.Length
	}
	e.bytesLen(length)
	if r.Data != nil {
		e.gaps = append(e.gaps, gap{len(e.out), r.Data})
	}
	e.partitionTags(r)
}

// partitionTags encodes a partition's tagged fields: the diverging epoch (KIP-595), the current
// leader (KIP-951), and the private fields for followers (follower_fetch.go).
func (e *fetchEncoder) partitionTags(r *replica.FetchResult) {
	if !e.flexible {
		return
	}
	leader, led := leaderHint{}, false
	if isLeaderError(r.Err) {
		leader, led = hint(e.image, e.replicas, r.ID)
	}
	private := e.follower && (r.Err != nil || r.ReplicasTombstoneClean > 0)
	count := byte(0)
	for _, present := range []bool{r.Diverging != nil, led, private} {
		if present {
			count++
		}
	}
	e.out = append(e.out, count)
	if r.Diverging != nil {
		e.out = append(e.out, 0, 13)
		e.out = kbin.AppendInt32(e.out, r.Diverging.Epoch)
		e.out = kbin.AppendInt64(e.out, r.Diverging.End)
		e.out = append(e.out, 0)
	}
	if led {
		e.out = append(e.out, 1, 9)
		e.out = kbin.AppendInt32(e.out, leader.id)
		e.out = kbin.AppendInt32(e.out, leader.epoch)
		e.out = append(e.out, 0)
		e.leaders.add(leader.id)
	}
	if private {
		e.out = kbin.AppendUvarint(e.out, followerTag)
		e.out = append(e.out, responseTagBytes)
		e.out = kbin.AppendInt64(e.out, r.LogStart)
		e.out = kbin.AppendInt64(e.out, r.LogEnd)
		e.out = kbin.AppendInt64(e.out, r.ReplicasTombstoneClean)
	}
}

// endpoints encodes the endpoints of the leaders in the response, so that the client can connect to
// brokers that it does not know yet (KIP-951).
func (e *fetchEncoder) endpoints() {
	named := e.leaders.in(e.image, e.listener)
	if e.version < 16 || e.follower || len(named) == 0 {
		e.tags()
		return
	}
	var list []byte
	list = kbin.AppendCompactArrayLen(list, len(named))
	for _, b := range named {
		list = kbin.AppendInt32(list, b.ID)
		list = kbin.AppendCompactString(list, b.Host)
		list = kbin.AppendInt32(list, b.Port)
		list = kbin.AppendCompactNullableString(list, b.NullableRack())
		list = append(list, 0)
	}
	e.out = append(e.out, 1, 0)
	e.out = kbin.AppendUvarint(e.out, uint32(len(list)))
	e.out = append(e.out, list...)
}

// aborted encodes the list of aborted transactions whose records the client must skip (KIP-98). If
// the client reads uncommitted records, the list is null.
func (e *fetchEncoder) aborted(data *logstore.Slice, committed bool) {
	if data == nil || !committed {
		e.nullableArrayLen(0, !committed)
		return
	}
	e.nullableArrayLen(len(data.Aborted), false)
	for _, a := range data.Aborted {
		e.out = kbin.AppendInt64(e.out, a.ProducerID)
		e.out = kbin.AppendInt64(e.out, a.FirstOffset)
		e.tags()
	}
}

// reply returns the encoded bytes, split at the gaps, with the file ranges between them. No other
// method may be called afterwards, because the chunks alias e.out, and another append could move
// it. The file ranges are released after the reply has been sent.
func (e *fetchEncoder) reply() wire.Reply {
	chunks := make([]wire.Chunk, 0, 2*len(e.gaps)+1)
	from := 0
	for _, gap := range e.gaps {
		if gap.data.Length == 0 {
			continue
		}
		chunks = append(chunks,
			wire.Chunk{Bytes: e.out[from:gap.position]},
			wire.Chunk{File: gap.data.File, Position: gap.data.Position,
				Length: gap.data.Length})
		from = gap.position
	}
	chunks = append(chunks, wire.Chunk{Bytes: e.out[from:]})
	gaps := e.gaps
	return wire.Reply{Flexible: e.flexible, Chunks: chunks, Error: e.Name, Release: func() {
		for _, gap := range gaps {
			gap.data.Release()
		}
	}}
}

func (e *fetchEncoder) string(s string) {
	if e.flexible {
		e.out = kbin.AppendCompactString(e.out, s)
		return
	}
	e.out = kbin.AppendString(e.out, s)
}

func (e *fetchEncoder) arrayLen(n int) {
	if e.flexible {
		e.out = kbin.AppendCompactArrayLen(e.out, n)
		return
	}
	e.out = kbin.AppendArrayLen(e.out, n)
}

// nullableArrayLen encodes the length of an array, or null.
func (e *fetchEncoder) nullableArrayLen(n int, null bool) {
	if e.flexible {
		e.out = kbin.AppendCompactNullableArrayLen(e.out, n, null)
		return
	}
	e.out = kbin.AppendNullableArrayLen(e.out, n, null)
}

// bytesLen encodes the length of a bytes field. The caller appends the bytes.
func (e *fetchEncoder) bytesLen(n int) {
	if e.flexible {
		e.out = kbin.AppendUvarint(e.out, uint32(n)+1)
		return
	}
	e.out = kbin.AppendInt32(e.out, int32(n))
}

// tags encodes an empty section of tagged fields if the version is flexible.
func (e *fetchEncoder) tags() {
	if e.flexible {
		e.out = append(e.out, 0)
	}
}
