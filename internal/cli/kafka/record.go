package kafka

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is a record in the output of tail. Key and Value are nil if they are null.
type Record struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"`
	Key       *Text     `json:"key"`
	Value     *Text     `json:"value"`
	Headers   []Header  `json:"headers,omitempty"`
}

// Header is a record header.
type Header struct {
	Key   string `json:"key"`
	Value *Text  `json:"value"`
}

// Text is a key or a value. In JSON it is {"text": "..."}, or {"base64": "..."} if it is not UTF-8.
type Text []byte

// MarshalJSON implements json.Marshaler.
func (t *Text) MarshalJSON() ([]byte, error) {
	if utf8.Valid(*t) {
		return json.Marshal(map[string]string{"text": string(*t)})
	}
	return json.Marshal(map[string][]byte{"base64": *t})
}

func text(b []byte) *Text {
	if b == nil {
		return nil
	}
	t := Text(b)
	return &t
}

func newRecord(r *kgo.Record) Record {
	out := Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp.UTC(),
		Key: text(r.Key), Value: text(r.Value)}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, Header{h.Key, text(h.Value)})
	}
	return out
}
