package handler

import (
	"github.com/twmb/franz-go/pkg/kbin"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// produceRequest is a decoded Produce request. It has a decoder of its own because its frames may
// be large: its own decoder allocates a fixed number of bytes for each partition that the frame
// contains.
type produceRequest struct {
	version       int16
	acks          int16
	timeoutMillis int32
	partitions    []producePartition // in the order of the request
	topics        []produceTopic
}

type produceTopic struct {
	name string
	id   metadata.ID // from version 13 on, instead of the name
	// count is the number of partitions of the topic; they follow those of the topics before. >= 0.
	count int
}

type producePartition struct {
	id      replica.PartitionID
	topic   metadata.ID // zero below version 13
	records []byte      // aliases the frame; nil once the batch was appended
}

// decodeProduce decodes the body of any served version. It fails if the body ends early or has more
// than elementsMax elements; len(partitions) is the sum of the counts.
func decodeProduce(version int16, body []byte) (*produceRequest, error) {
	d := produceDecoder{Reader: kbin.Reader{Src: body}, flexible: version >= 9}
	p := &produceRequest{version: version}
	if version >= 3 {
		// Transactional id. The batches carry a transactional flag of their own.
		d.nullableString()
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
		// Check the bound before the loop: the count is untrusted.
		if len(p.topics)+len(p.partitions)+count > elementsMax {
			return nil, errTooManyElements
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

// produceDecoder reads both forms of a field. kbin's reader becomes invalid at the first bad length
// and returns zeros from then on.
type produceDecoder struct {
	kbin.Reader
	flexible bool
}

func (d *produceDecoder) nullableString() {
	if d.flexible {
		d.UnsafeCompactNullableString()
		return
	}
	d.UnsafeNullableString()
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

// arrayLen returns the number of elements; kbin has checked that at least as many bytes follow.
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
