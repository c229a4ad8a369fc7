package console

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/console/kafka"
)

// positionTail is the form's position value for following the end of a topic.
const positionTail = "tail"

const (
	// tailGap is the time between two steps of a tail.
	tailGap = 500 * time.Millisecond
	// tailRefresh is the number of seconds after which a page without scripts is reloaded.
	tailRefresh = 5
	// tailBytesMax limits the size of the HTML of the rows in one update.
	tailBytesMax = 256 << 10
	// tailCursorMax limits the size of a stream's cursor, because it is part of a URL. If the cursor
	// is larger, a stream that reconnects begins at the end.
	tailCursorMax = 2000
)

// tailUpdate is the data of one event in a tail's stream.
type tailUpdate struct {
	Rows    string `json:"rows"` // HTML of table rows, the newest first
	Looked  int64  `json:"looked"`
	Found   int64  `json:"found"`
	Shown   int    `json:"shown"`
	Skipped int64  `json:"skipped"` // offsets
}

// follow makes the page follow the topic, starting at the offsets in ends.
func (m *messages) follow(ends map[int32]int64) {
	m.Tail = query("tail", "name", m.Topic, "partition", m.Partition, "key", m.Key,
		"value", m.Value)
	if m.Latest {
		m.Tail += "&latest=1"
	}
	if from := tailCursor(ends); from != "" {
		m.Tail += "&from=" + url.QueryEscape(from)
	}
}

// tailCursor formats the position of a tail. It returns "" if the result is too long.
func tailCursor(positions map[int32]int64) string {
	if text := formatCursor(positions); len(text) <= tailCursorMax {
		return text
	}
	return ""
}

// sameKey returns a text that is equal for records with the same key in the same partition, or ""
// without a key.
func sameKey(r *kafka.Record) string {
	if r.Key == nil {
		return ""
	}
	sum := fnv.New128a()
	_, _ = fmt.Fprintf(sum, "%d:", r.Partition) // never fails
	_, _ = sum.Write(r.Key)
	return hex.EncodeToString(sum.Sum(nil))
}

// tail streams the records that are appended to a topic. It sends server-sent events with table
// rows. The ID of each event is the position after it, so a page that reconnects continues there.
func (c *Console) tail(w http.ResponseWriter, r *http.Request) {
	tail, page, err := c.openTail(r)
	if err != nil {
		refuse(w, statusOfError(err), err.Error())
		return
	}
	defer tail.Close()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer updates
	out := eventWriter{w, http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	quiet, fault := time.Now(), ""
	if out.write(": \n\n") != nil { // shows the page as live before the first record
		return
	}
	for {
		step, err := tail.Next(r.Context())
		if r.Context().Err() != nil || kafka.Closed(err) {
			return // the browser reconnects; the console is then open again
		}
		failed := out.step(c, &page, step, tailCursor(tail.Position()))
		if text := faultText(err); text != fault && failed == nil {
			fault = text
			failed = out.event("fault", "", text)
		}
		if since := time.Since(quiet); failed == nil && since >= liveComment {
			quiet = quiet.Add(since)
			failed = out.write(": \n\n")
		}
		if failed != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(tailGap):
		}
	}
}

// openTail opens the tail that the request describes.
func (c *Console) openTail(r *http.Request) (tail *kafka.Tail, page messages, err error) {
	if err := c.mayRead(r); err != nil {
		return nil, page, err
	}
	client, err := c.kafka()
	if err != nil {
		return nil, page, err
	}
	page, tailQuery, err := parseTail(r)
	if err != nil {
		return nil, page, err
	}
	tail, err = client.Tail(r.Context(), tailQuery)
	if errors.Is(err, kafka.ErrTails) {
		err = &fault{status: http.StatusServiceUnavailable, text: err.Error()}
	}
	return tail, page, err
}

// parseTail parses a stream's query. A browser that reconnects sends the ID of the last event that
// it received.
func parseTail(r *http.Request) (page messages, tailQuery kafka.TailQuery, err error) {
	q := r.URL.Query()
	q.Set("position", positionTail)
	page, selected, err := parseBrowse(q, q.Get("name"))
	if selected.Topic == "" && err == nil {
		err = badRequest("The request names no topic.")
	}
	tailQuery = kafka.TailQuery{Topic: selected.Topic, Partitions: selected.Partitions,
		Key: selected.Key, Value: selected.Value}
	from := r.Header.Get("Last-Event-ID")
	if from == "" {
		from = q.Get("from")
	}
	if from != "" && err == nil {
		if tailQuery.From, err = parseCursor(from); err != nil {
			err = badRequest("The cursor is invalid.")
		}
	}
	return page, tailQuery, err
}

// faultText returns the text for a failed step, or "" if err is nil.
func faultText(err error) string {
	if err == nil {
		return ""
	}
	return "Some records are not shown now: " + err.Error()
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (e eventWriter) write(text string) error {
	_ = e.control.SetWriteDeadline(time.Now().Add(liveWrite)) // fails only in tests
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.control.Flush()
}

// event writes one event. It omits the ID if id is empty.
func (e eventWriter) event(name, id string, data any) error {
	encoded, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return e.write("event: " + name + "\n" + id + "data: " + string(encoded) + "\n\n")
}

// step writes the result of one step of a tail, unless the result is empty.
func (e eventWriter) step(c *Console, page *messages, tailStep kafka.TailStep,
	position string) error {
	if tailStep.Looked == 0 && tailStep.Skipped == 0 {
		return nil
	}
	rows, shown, err := tailRows(page, tailStep.Records)
	if err != nil {
		c.opts.Logger.Error("failed to render rows of a tail", "error", err)
		return err
	}
	return e.event("records", position, tailUpdate{Rows: rows, Looked: tailStep.Looked,
		Found: tailStep.Found,
		Shown: shown, Skipped: tailStep.Skipped})
}

// tailRows renders records as table rows, the newest first. The records are sorted by time. If the
// rows exceed tailBytesMax, tailRows omits the oldest ones.
func tailRows(page *messages, records []kafka.Record) (html string, shown int, err error) {
	var rows []byte
	for i := range slices.Backward(records) {
		record := &records[i]
		if page.Latest && record.Superseded {
			continue
		}
		row := messageOf(record, page.Topic, valueBytesMax)
		row.Same = sameKey(record)
		var text bytes.Buffer
		err := templates["topic"].ExecuteTemplate(&text, "messagerows", []messageRow{row})
		if err != nil {
			return "", 0, err
		}
		if len(rows)+text.Len() > tailBytesMax {
			break
		}
		rows = append(rows, text.Bytes()...)
		shown++
	}
	return string(rows), shown, nil
}
