package console

import (
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"heartwood.dev/heartwood/internal/console/kafka"
)

// Limits of a download.
const (
	downloadRecords = 10_000
	downloadBytes   = 64 << 20 // limit on the total size of keys and values
	downloadTime    = 20 * time.Second
)

// recordLine is one record in a download. Bytes that are not UTF-8 are in the base64 fields.
type recordLine struct {
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	Time        time.Time    `json:"timestamp"`
	Key         *string      `json:"key"`
	KeyBase64   []byte       `json:"keyBase64,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 []byte       `json:"valueBase64,omitempty"`
	Headers     []headerLine `json:"headers,omitempty"`
}

type headerLine struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"valueBase64,omitempty"`
}

// endLine is the last line of a download that does not contain all records.
type endLine struct {
	Truncated string          `json:"truncated"`      // reason
	Next      map[int32]int64 `json:"next,omitempty"` // the offset to continue at, by partition
}

// textOrBytes returns raw as text if it is UTF-8, and otherwise as bytes.
func textOrBytes(raw []byte) (text *string, other []byte) {
	switch {
	case raw == nil:
		return nil, nil
	case utf8.Valid(raw):
		return new(string(raw)), nil
	}
	return nil, raw
}

func lineOf(r *kafka.Record) recordLine {
	line := recordLine{Partition: r.Partition, Offset: r.Offset, Time: r.Time.UTC()}
	line.Key, line.KeyBase64 = textOrBytes(r.Key)
	line.Value, line.ValueBase64 = textOrBytes(r.Value)
	for _, h := range r.Headers {
		header := headerLine{Key: h.Key}
		header.Value, header.ValueBase64 = textOrBytes(h.Value)
		line.Headers = append(line.Headers, header)
	}
	return line
}

// download sends the records selected by the form on the tab Messages, as one JSON object per line.
func (c *Console) download(w http.ResponseWriter, r *http.Request) {
	client, query, err := c.downloadOf(r)
	if err != nil {
		c.render(w, r, c.failed(r, err))
		return
	}
	deadline := time.Now().Add(requestTimeout)
	// The call fails only if w is not a connection, as in tests.
	_ = http.NewResponseController(w).SetWriteDeadline(deadline)
	page, err := client.Browse(r.Context(), query)
	if err != nil {
		c.render(w, r, c.failed(r, err))
		return
	}
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment",
		map[string]string{"filename": query.Topic + ".jsonl"}))
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	until, records, size := time.Now().Add(downloadTime), 0, 0
	for {
		for i := range page.Records {
			if out.Encode(lineOf(&page.Records[i])) != nil {
				return // the client has disconnected
			}
			size += len(page.Records[i].Key) + len(page.Records[i].Value)
		}
		records += len(page.Records)
		end := endLine{Next: page.Next}
		switch {
		case len(page.Next) == 0:
			return
		case records >= downloadRecords:
			end.Truncated = "after " + formatCount(records) + " records"
		case size >= downloadBytes:
			end.Truncated = "after " + formatBytes(size)
		case time.Now().After(until):
			end.Truncated = "after " + formatDuration(downloadTime)
		}
		if end.Truncated == "" {
			query.From, query.Since = page.Next, time.Time{}
			query.Partitions = slices.Sorted(maps.Keys(page.Next))
			if page, err = client.Browse(r.Context(), query); err != nil {
				end.Truncated = err.Error()
			}
		}
		if end.Truncated != "" {
			_ = out.Encode(end) // fails only if the client has disconnected
			return
		}
	}
}

// downloadOf returns the client and the query for a requested download.
func (c *Console) downloadOf(r *http.Request) (*kafka.Client, kafka.Query, error) {
	if err := c.mayRead(r); err != nil {
		return nil, kafka.Query{}, err
	}
	topic := r.URL.Query().Get("name")
	if topic == "" {
		return nil, kafka.Query{}, badRequest("The request names no topic.")
	}
	_, query, err := parseBrowse(r.URL.Query(), topic)
	if err != nil {
		return nil, query, err
	}
	query.Limit = kafka.RecordsMax
	client, err := c.kafka()
	return client, query, err
}
