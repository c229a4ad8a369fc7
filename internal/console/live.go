package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	// liveGap is the minimum time between two updates of a page. It is needed because steps of passes
	// are more frequent.
	liveGap = 100 * time.Millisecond
	// liveComment is the interval between comments in the stream, which keep proxies from closing it.
	liveComment = 15 * time.Second
	// liveWrite limits the time to send one update. After that time, the stream of a page that does
	// not read is closed.
	liveWrite = 20 * time.Second
	// viewersMax is the maximum number of streams of a console.
	viewersMax = 200
)

// update is the data of one event in the stream: the changed parts of the frame.
type update struct {
	Cards   []card            `json:"cards,omitempty"`
	Rows    []json.RawMessage `json:"rows"`
	Order   []string          `json:"order,omitempty"` // IDs of all rows, if the list has changed
	Missing string            `json:"missing"`
}

// differ finds the differences between two frames that are sent to the same page.
type differ struct {
	rows  map[string][]byte // JSON of the sent rows, by ID
	order []string
	cards []card
	// missing is the last text about brokers that have not responded that was sent.
	missing string
}

// next returns the update from the previous frame to frame, and whether there is anything to send.
func (d *differ) next(frame *mapFrame) (update, bool) {
	change := update{Rows: []json.RawMessage{}, Missing: frame.Missing}
	var order []string
	sent := map[string][]byte{}
	for i := range frame.Rows {
		row := &frame.Rows[i]
		order = append(order, row.ID)
		encoded, err := json.Marshal(row)
		if err != nil {
			continue // cannot happen: rows contain only numbers that JSON can represent
		}
		if sent[row.ID] = encoded; !bytes.Equal(encoded, d.rows[row.ID]) {
			change.Rows = append(change.Rows, encoded)
		}
	}
	if !slices.Equal(order, d.order) {
		change.Order = order
	}
	if !slices.Equal(frame.Cards, d.cards) {
		change.Cards = frame.Cards
	}
	changed := len(change.Rows) > 0 || change.Order != nil || change.Cards != nil ||
		frame.Missing != d.missing
	d.rows, d.order, d.cards, d.missing = sent, order, frame.Cards, frame.Missing
	return change, changed
}

// live streams a topic's frames as server-sent events. Each stream begins with a complete frame, so
// a page that reconnects needs no other state.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	select {
	case c.viewers <- struct{}{}:
		defer func() { <-c.viewers }()
	default:
		refuse(w, http.StatusServiceUnavailable, "Too many pages receive updates.")
		return
	}
	shown := parseMapView(r.URL.Query())
	watched, leave, err := c.watches.join(shown.topic)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer leave()
	watched.await(r.Context())
	if watched.unknown() {
		refuse(w, http.StatusNotFound, "There is no topic with this name.")
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer updates
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	var d differ
	comment := time.NewTicker(liveComment)
	defer comment.Stop()
	for last := int64(-1); ; {
		frame, version, changed := watched.current(&shown, time.Now())
		if version != last {
			last = version
			if update, changed := d.next(frame); changed && send(w, control, update) != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-comment.C:
			_ = control.SetWriteDeadline(time.Now().Add(liveWrite))
			if _, err := w.Write([]byte(": \n\n")); err != nil || control.Flush() != nil {
				return
			}
			continue
		case <-changed:
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(liveGap):
		}
	}
}

// send writes one event.
func send(w http.ResponseWriter, control *http.ResponseController, change update) error {
	encoded, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_ = control.SetWriteDeadline(time.Now().Add(liveWrite)) // fails only in tests
	if _, err := fmt.Fprintf(w, "event: frame\ndata: %s\n\n", encoded); err != nil {
		return err
	}
	return control.Flush()
}
