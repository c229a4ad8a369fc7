package console

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"heartwood.dev/heartwood/internal/console/kafka"
)

// recordPage is the page of one record.
type recordPage struct {
	Topic string
	messageRow
	// JSON reports whether the value is JSON. Raw reports whether the value is shown as stored. Toggle
	// is the relative URL of the page with the other representation.
	JSON, Raw bool
	Toggle    string
	// Back is the relative URL of the list from which the user came, or of the topic's records
	// starting at this one.
	Back           string
	Previous, Next string // relative URLs of the neighbouring records in the partition
	// Edge is "previous" or "next" if the partition has no record before or after this one; otherwise
	// "".
	Edge string
}

// message returns the page of one record. If the parameter go is set, it redirects to the next or
// previous record.
func (c *Console) message(r *http.Request) (view, error) {
	if err := c.mayRead(r); err != nil {
		return view{}, err
	}
	client, err := c.kafka()
	if err != nil {
		return view{}, err
	}
	q := r.URL.Query()
	location, err := placeOf(q)
	if err != nil {
		return view{}, err
	}
	if to := q.Get("go"); to != "" {
		return neighbour(r.Context(), client, location, to, q)
	}
	found, err := findRecord(r.Context(), client, location)
	if err != nil {
		return view{}, err
	}
	page := recordPage{Topic: location.topic, messageRow: messageOf(found, location.topic,
		wholeBytesMax),
		Raw: q.Get("raw") != "", Edge: q.Get("edge"), Back: backOf(q, location)}
	if pretty, ok := prettyJSON(found.Value); ok && !page.Value.Cut {
		page.JSON = true
		if !page.Raw {
			page.Value.Text, page.Value.Hex = printable(pretty)
		}
	}
	page.Previous, page.Next = location.link(q, "go", "previous"), location.link(q, "go", "next")
	page.Toggle = location.link(q, "raw", "1")
	if page.Raw {
		page.Toggle = location.link(q)
	}
	return view{Template: "message", Title: "Record", Page: "topics", Body: page}, nil
}

// place is the position of a record: topic, partition and offset.
type place struct {
	topic     string
	partition int32
	offset    int64
}

func placeOf(q url.Values) (location place, err error) {
	if location.topic = q.Get("topic"); location.topic == "" {
		return location, badRequest("The request names no topic.")
	}
	p, err := strconv.ParseInt(q.Get("partition"), 10, 32)
	if err != nil {
		return location, badRequest("The partition is not a number.")
	}
	location.partition = int32(p)
	if location.offset, err = strconv.ParseInt(q.Get("offset"), 10, 64); err != nil {
		return location, badRequest("The offset is not a number.")
	}
	return location, nil
}

// link returns the relative URL of the record's page. The URL contains the parameter list of the
// current page, and the parameters in further.
func (location place) link(q url.Values, further ...any) string {
	pairs := []any{"topic", location.topic, "partition", location.partition, "offset", location.offset}
	if list := q.Get("list"); list != "" {
		pairs = append(pairs, "list", list)
	}
	return query("message", append(pairs, further...)...)
}

// backOf returns the relative URL in the parameter list, or otherwise the URL of the topic's
// records starting at this one. The result is always a URL of the topic's page.
func backOf(q url.Values, location place) string {
	if list, err := url.ParseQuery(q.Get("list")); err == nil && list.Get("name") == location.topic {
		return "topic?" + list.Encode()
	}
	return query("topic", "name", location.topic, "tab", "messages", "position", "offset", "partition",
		location.partition, "at", location.offset)
}

// neighbour redirects to the record before or after the given one in its partition.
func neighbour(ctx context.Context, client *kafka.Client, location place, to string,
	q url.Values) (view, error) {
	wanted := kafka.Query{Topic: location.topic, Partitions: []int32{location.partition}, Limit: 1,
		From: map[int32]int64{location.partition: location.offset + 1}}
	if to == "previous" {
		wanted.Backward, wanted.From[location.partition] = true, location.offset
	}
	found, err := client.Browse(ctx, wanted)
	switch {
	case err != nil:
		return view{}, err
	case len(found.Records) == 1:
		location.offset = found.Records[0].Offset
		return view{Location: location.link(q)}, nil
	case found.Limited != "":
		return view{}, &fault{status: http.StatusGatewayTimeout, text: "The neighbour was not found " +
			"within the limits of a page: look for it in the tab Messages, from an offset on."}
	}
	return view{Location: location.link(q, "edge", to)}, nil
}

// findRecord reads the record at a place.
func findRecord(ctx context.Context, client *kafka.Client, location place) (*kafka.Record, error) {
	page, err := client.Browse(ctx, kafka.Query{Topic: location.topic,
		Partitions: []int32{location.partition},
		From:       map[int32]int64{location.partition: location.offset}, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Records) == 0 || page.Records[0].Offset != location.offset {
		return nil, &fault{status: http.StatusNotFound, text: "There is no record at this offset: " +
			"the cleaner has removed it, or it is part of a transaction that was not committed."}
	}
	return &page.Records[0], nil
}

// jsonBytesMax is the maximum size of a JSON value including its indentation. Larger values are not
// indented.
const jsonBytesMax = 4 * wholeBytesMax

// prettyJSON returns a JSON object or array with indentation. It returns false for any other text,
// or if the result would exceed jsonBytesMax: with deep nesting, the size of the result grows with
// the square of the size of the input.
func prettyJSON(raw []byte) ([]byte, bool) {
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '[' || !json.Valid(trimmed) ||
		indentedSize(trimmed) > jsonBytesMax {
		return nil, false
	}
	var out bytes.Buffer
	if err := json.Indent(&out, trimmed, "", "  "); err != nil {
		return nil, false
	}
	return out.Bytes(), true
}

// indentedSize returns an upper bound on the size of a valid JSON text after indentation.
func indentedSize(text []byte) (size int) {
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		size++
		switch b := text[i]; {
		case inString && b == '\\':
			i, size = i+1, size+1
		case b == '"':
			inString = !inString
		case inString:
		case b == '{' || b == '[':
			depth++
			size += 1 + 2*depth
		case b == '}' || b == ']':
			depth--
			size += 1 + 2*depth
		case b == ',':
			size += 1 + 2*depth
		case b == ':':
			size++
		}
	}
	return size
}
