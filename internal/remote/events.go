package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"heartwood.dev/heartwood/api/report"
)

const (
	// eventsSilenceMax is how long an event stream may be silent. A broker sends a comment every 15 s,
	// so a longer silence means that the connection is lost.
	eventsSilenceMax = 40 * time.Second
	// eventBytesMax limits the size of one event.
	eventBytesMax = responseBytesMax
)

// errEventsSilent means that a stream was ended because it was silent for eventsSilenceMax.
var errEventsSilent = errors.New("the stream was silent")

// Events requests GET /api/v1/events for a topic from the broker at an address. It calls handle
// with the name and the data of each event, until ctx or the stream ends. The error is the reason
// for the end.
func (c *Client) Events(ctx context.Context, address, topic string,
	handle func(name string, data []byte)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(eventsSilenceMax, func() { cancel(errEventsSilent) })
	defer silence.Stop()
	request, err := c.request(ctx, http.MethodGet, address,
		"/api/v1/events?"+url.Values{"topic": {topic}}.Encode())
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("connect to broker at %s: %w", address, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		refused := &Refused{Address: address, Status: response.StatusCode}
		body := json.NewDecoder(io.LimitReader(response.Body, responseBytesMax))
		if body.Decode(&refused.Failure) != nil || refused.Failure.Error == "" {
			refused.Failure = report.Failure{Error: "response status " + response.Status}
		}
		return refused
	}
	err = readEvents(response.Body, func(name string, data []byte) {
		silence.Reset(eventsSilenceMax)
		if name != "" {
			handle(name, data)
		}
	})
	return fmt.Errorf("read events of broker at %s: %w", address, errors.Join(err,
		context.Cause(ctx)))
}

// readEvents reads server-sent events (HTML standard). It calls handle for each event, and with an
// empty name for each comment. At the end of the stream it returns io.ErrUnexpectedEOF.
func readEvents(stream io.Reader, handle func(name string, data []byte)) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 0, 64<<10), eventBytesMax)
	name, data := "message", []byte(nil)
	for lines.Scan() {
		line := lines.Bytes()
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			if data != nil {
				handle(name, data)
			}
			name, data = "message", nil
		case len(field) == 0:
			handle("", nil)
		case string(field) == "event":
			name = string(value)
		case string(field) == "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
			if data == nil {
				data = []byte{}
			}
			if len(data) > eventBytesMax {
				return bufio.ErrTooLong
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
