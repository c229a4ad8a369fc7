package handler

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// fetchEncoder writes the Fetch response around holes that file ranges fill. kmsg cannot leave holes, and compares tagged
// structs by reflection for each partition.
type fetchEncoder struct {
	version  int16
	flexible bool
	out      []byte
	holes    []hole
}

// hole is where a file range goes: after the first at bytes of out.
type hole struct {
	at   int
	data *logstore.Slice
}

// partitionBytes is about what one partition takes beside its records.
const partitionBytes = 64

// encodeFetch answers a request whose results are in the order of its partitions.
func encodeFetch(req *kmsg.FetchRequest, results []replica.FetchResult, result *outcome) wire.Reply {
	e := newFetchEncoder(req.Version, len(results))
	e.head(0)
	e.arrayLen(len(req.Topics))
	at := 0
	for i := range req.Topics {
		topic := &req.Topics[i]
		e.string(topic.Topic)
		e.arrayLen(len(topic.Partitions))
		for range topic.Partitions {
			e.partition(&results[at], result.code(results[at].Err), req.IsolationLevel == 1)
			at++
		}
		e.tags()
	}
	e.tags()
	return e.reply(result)
}

// fetchFailed answers the request as a whole with an error.
func fetchFailed(version, code int16, result *outcome) wire.Reply {
	e := newFetchEncoder(version, 0)
	e.head(code)
	e.arrayLen(0)
	e.tags()
	return e.reply(result)
}

// newFetchEncoder reserves room for so many partitions, so that the response is as a rule one allocation.
func newFetchEncoder(version int16, partitions int) *fetchEncoder {
	return &fetchEncoder{version: version, flexible: version >= 12, out: make([]byte, 0, partitionBytes*(partitions+1))}
}

// head writes what comes before the topics. Below version 7 there is no room for an error of the request as a whole.
func (e *fetchEncoder) head(code int16) {
	e.out = kbin.AppendInt32(e.out, 0) // throttle time
	if e.version >= 7 {
		e.out = kbin.AppendInt16(e.out, code)
		e.out = kbin.AppendInt32(e.out, 0) // session id: none was opened
	}
}

// partition writes one partition around its hole. With an error the offsets are -1, which clients take for unknown.
func (e *fetchEncoder) partition(r *replica.FetchResult, code int16, committed bool) {
	highWater, stable, start := r.HighWater, r.Stable, r.LogStart
	if r.Err != nil {
		highWater, stable, start = -1, -1, -1
	}
	e.out = kbin.AppendInt32(e.out, r.ID.Index)
	e.out = kbin.AppendInt16(e.out, code)
	e.out = kbin.AppendInt64(e.out, highWater)
	e.out = kbin.AppendInt64(e.out, stable)
	if e.version >= 5 {
		e.out = kbin.AppendInt64(e.out, start)
	}
	e.aborted(r.Data, committed)
	if e.version >= 11 {
		e.out = kbin.AppendInt32(e.out, -1) // preferred read replica: the leader
	}
	length := 0
	if r.Data != nil {
		length = r.Data.Length
	}
	e.bytesLen(length)
	if r.Data != nil {
		e.holes = append(e.holes, hole{len(e.out), r.Data})
	}
	e.tags()
}

// aborted writes the aborted transactions whose records the client must leave out; null for one that reads all (KIP-98).
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

// reply cuts what was written at the holes. It is called last: chunks alias out, which appending could move. The slices are
// released once the reply was sent.
func (e *fetchEncoder) reply(result *outcome) wire.Reply {
	chunks := make([]wire.Chunk, 0, 2*len(e.holes)+1)
	from := 0
	for _, hole := range e.holes {
		if hole.data.Length == 0 {
			continue
		}
		chunks = append(chunks,
			wire.Chunk{Bytes: e.out[from:hole.at]},
			wire.Chunk{File: hole.data.File, Position: hole.data.Position, Length: hole.data.Length})
		from = hole.at
	}
	chunks = append(chunks, wire.Chunk{Bytes: e.out[from:]})
	holes := e.holes
	return wire.Reply{Flexible: e.flexible, Chunks: chunks, Error: result.name, Release: func() {
		for _, hole := range holes {
			hole.data.Release()
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

// nullableArrayLen writes the length of an array, or that there is none.
func (e *fetchEncoder) nullableArrayLen(n int, null bool) {
	if e.flexible {
		e.out = kbin.AppendCompactNullableArrayLen(e.out, n, null)
		return
	}
	e.out = kbin.AppendNullableArrayLen(e.out, n, null)
}

// bytesLen writes the length of bytes that follow.
func (e *fetchEncoder) bytesLen(n int) {
	if e.flexible {
		e.out = kbin.AppendUvarint(e.out, uint32(n)+1)
		return
	}
	e.out = kbin.AppendInt32(e.out, int32(n))
}

// tags writes an empty tag section, where the version has one.
func (e *fetchEncoder) tags() {
	if e.flexible {
		e.out = append(e.out, 0)
	}
}
