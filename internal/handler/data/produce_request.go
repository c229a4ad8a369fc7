package data

import (
	"github.com/twmb/franz-go/pkg/kbin"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// produceRequest is a decoded Produce request. It is not decoded with kmsg, because produce
// requests can be large: decodeProduce allocates only a fixed number of bytes per partition.
type produceRequest struct {
	version       int16
	acks          int16
	timeoutMillis int32
	// transactionalID is nil if the producer is not transactional.
	transactionalID *string
	partitions      []producePartition // partitions of all topics, in the order of the request
	topics          []produceTopic
}

type produceTopic struct {
	name string
	id   metadata.ID // topic id, which replaces the name in version 13 and above
	// count is the number of the topic's partitions in the request. They follow the partitions of the
	// previous topics in produceRequest.partitions.
	count int
}

type producePartition struct {
	id      replica.PartitionID
	topic   metadata.ID // topic id; zero below version 13
	records []byte      // the batch; aliases the frame; nil after the append
}

// decodeProduce decodes the body of a Produce request in any supported version. It fails if the
// body ends early or contains more than ElementsMax elements. The topics' counts add up to the
// number of partitions.
func decodeProduce(version int16, body []byte) (*produceRequest, error) {
	d := produceDecoder{Reader: kbin.Reader{Src: body}, flexible: version >= 9}
	p := &produceRequest{version: version}
	if version >= 3 {
		p.transactionalID = d.nullableString()
	}
	p.acks = d.Int16()
	p.timeoutMillis = d.Int32()
	for range d.arrayLen() {
		topic := produceTopic{}
		if version >= 13 {
			copy(topic.id[:], d.Span(len(topic.id)))
		} else {
			topic.name = d.string()
		}
		count := d.arrayLen()
		// The count is untrusted, so check its limit before the loop.
		if len(p.topics)+len(p.partitions)+count > api.ElementsMax {
			return nil, api.ErrTooManyElements
		}
		topic.count = count
		p.topics = append(p.topics, topic)
		for range count {
			index := d.Int32()
			records := d.bytes()
			d.tags()
			p.partitions = append(p.partitions,
				producePartition{replica.PartitionID{Topic: topic.name, Index: index}, topic.id,
					records})
		}
		d.tags()
	}
	d.tags()
	if err := d.Complete(); err != nil {
		return nil, err
	}
	return p, nil
}

// produceDecoder reads fields in the format of flexible or non-flexible versions. After an invalid
// length, kbin.Reader returns only zeros.
type produceDecoder struct {
	kbin.Reader
	flexible bool
}

// nullableString returns a copy of a string, or nil.
func (d *produceDecoder) nullableString() *string {
	if d.flexible {
		return d.CompactNullableString()
	}
	return d.NullableString()
}

func (d *produceDecoder) string() string {
	if d.flexible {
		return d.CompactString()
	}
	return d.String()
}

func (d *produceDecoder) bytes() []byte {
	if d.flexible {
		return d.CompactNullableBytes()
	}
	return d.NullableBytes()
}

func (d *produceDecoder) tags() {
	if d.flexible {
		wire.SkipTags(&d.Reader)
	}
}

// arrayLen returns the number of elements in an array. kbin has checked that at least this number
// of bytes follows.
func (d *produceDecoder) arrayLen() int {
	var n int32
	if d.flexible {
		n = d.CompactArrayLen()
	} else {
		n = d.ArrayLen()
	}
	if !d.Ok() {
		return 0
	}
	return int(max(0, n))
}
