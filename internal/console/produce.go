package console

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/internal/console/kafka"
)

const (
	// produceBytesMax limits the size of a record's form. In the encoding of the form, one byte may
	// take three bytes.
	produceBytesMax = 3 << 20
	// headerLinesMax limits the number of record headers in a form.
	headerLinesMax = 100
)

// actions returns the changes that pages offer, by path.
func (c *Console) actions() map[string]*action {
	return map[string]*action{
		"/produce": {change: "produce record", right: WriteRecords, subjects: []string{"topic"},
			bytesMax: produceBytesMax, form: produceForm, do: c.produce},
		"/offsets": {change: "change offsets", right: WriteGroups,
			subjects: []string{"group", "topic", "partition", "to", "at"},
			bytesMax: formBytesMax, form: c.offsetsForm, do: c.changeOffsets},
		"/deletegroup": {change: "delete group", right: WriteGroups, subjects: []string{"group"},
			bytesMax: formBytesMax, form: c.deleteGroupForm, do: c.deleteGroup},
		"/abort": {change: "abort transaction", right: Abort,
			subjects: []string{"id", "topic", "partition", "offset"},
			bytesMax: formBytesMax, form: abortForm, do: c.abort},
	}
}

// producePage is the form for producing a record. It shows the values from the last request.
type producePage struct {
	Topic, Partition, Key, Value, Headers, As string
	NoKey, Tombstone                          bool
}

func produceForm(r *http.Request) (view, error) {
	q := valuesOf(r)
	page := producePage{Topic: q.Get("topic"), Partition: q.Get("partition"), Key: q.Get("key"),
		Value: q.Get("value"), Headers: q.Get("headers"), As: q.Get("as"),
		NoKey: q.Get("nokey") != "", Tombstone: q.Get("tombstone") != ""}
	if page.Topic == "" {
		return view{}, badRequest("The request names no topic.")
	}
	return view{Template: "produce", Title: "Produce to " + page.Topic, Page: "topics",
		Body: page}, nil
}

// valuesOf returns the request's parameters: the form's values if the request contains a form,
// otherwise the query's.
func valuesOf(r *http.Request) url.Values {
	if r.Method == http.MethodPost {
		return r.PostForm
	}
	return r.URL.Query()
}

// produce appends the record in the form, and redirects to the record's page.
func (c *Console) produce(r *http.Request) (location string, err error) {
	record, err := parseRecord(r.PostForm)
	if err != nil {
		return "", err
	}
	client, err := c.kafka()
	if err != nil {
		return "", err
	}
	topic := r.PostForm.Get("topic")
	partition, offset, err := client.Produce(r.Context(), topic, record)
	if err != nil {
		return "", err
	}
	return query("message", "topic", topic, "partition", partition, "offset", offset), nil
}

// parseRecord parses the form for a record.
func parseRecord(q url.Values) (r kafka.Record, err error) {
	r.Partition = kafka.AnyPartition
	if text := strings.TrimSpace(q.Get("partition")); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return r, badRequest("The partition " + text + " is not a number.")
		}
		r.Partition = int32(n)
	}
	noKey, tombstone := q.Get("nokey") != "", q.Get("tombstone") != ""
	switch {
	case noKey && q.Get("key") != "":
		return r, badRequest("The record has a key and also no key: choose one.")
	case tombstone && q.Get("value") != "":
		return r, badRequest("A tombstone has no value.")
	case tombstone && noKey:
		return r, badRequest("A tombstone needs the key that it deletes.")
	}
	if !noKey {
		if r.Key, err = decodeField(q.Get("key"), q.Get("as")); err != nil {
			return r, badRequest("The key is not " + q.Get("as") + ".")
		}
	}
	if !tombstone {
		// Browsers send line breaks in a text area as CRLF.
		value := strings.ReplaceAll(q.Get("value"), "\r\n", "\n")
		if r.Value, err = decodeField(value, q.Get("as")); err != nil {
			return r, badRequest("The value is not " + q.Get("as") + ".")
		}
	}
	r.Headers, err = parseHeaders(q.Get("headers"))
	return r, err
}

// decodeField returns the bytes of a text. They are never nil, because nil means a null key or
// value.
func decodeField(text, as string) (raw []byte, err error) {
	switch as {
	case asBase64:
		raw, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	case asHex:
		raw, err = hex.DecodeString(strings.Join(strings.Fields(text), ""))
	default:
		raw = []byte(text)
	}
	if raw == nil {
		raw = []byte{}
	}
	return raw, err
}

// parseHeaders parses lines of the form "name: value".
func parseHeaders(text string) (headers []kafka.Header, err error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found || name == "" || len(headers) == headerLinesMax {
			return nil, badRequest("The headers are at most " + strconv.Itoa(headerLinesMax) +
				" lines of the form name: value.")
		}
		headers = append(headers, kafka.Header{Key: name,
			Value: []byte(strings.TrimPrefix(value, " "))})
	}
	return headers, nil
}
