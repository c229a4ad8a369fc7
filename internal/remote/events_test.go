package remote

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadEvents(t *testing.T) {
	stream := ": hello\nid: 1\nevent: pass\ndata: {\"id\":1}\n\nevent: two\ndata: a\ndata:  b\n\n" +
		"event: none\n\ndata:\n\nevent: cut\ndata: x\n"
	var got []string
	err := readEvents(strings.NewReader(stream), func(name string, data []byte) {
		got = append(got, name+"="+string(data))
	})
	want := []string{"=", `pass={"id":1}`, "two=a\n b", "message="}
	if diff := cmp.Diff(want, got); diff != "" ||
		!errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v, events (-want +got):\n%s", err, diff)
	}
}

// TestEventsEnd checks that Events returns an error that describes what happened, both at the end
// of a stream and if the broker refuses the request.
func TestEventsEnd(t *testing.T) {
	for status, body := range map[int]string{200: "event: ready\ndata: {}\n\n",
		404: `{"error": "no such topic"}`, 500: "oops"} {
		address := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.String() != "/api/v1/events?topic=a+b" {
				t.Errorf("request for %s", r.URL)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}), "127.0.0.1:0")
		events := 0
		err := (&Client{}).Events(t.Context(), address, "a b", func(string, []byte) { events++ })
		if err == nil || (events == 1) != (status == 200) {
			t.Errorf("status %d: got %d events, error %v", status, events, err)
		}
		if status == 404 && err.Error() != "no such topic" {
			t.Errorf("got error %q", err)
		}
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add("event: a\ndata: b\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		_ = readEvents(strings.NewReader(stream), func(name string, data []byte) {
			if strings.ContainsAny(name, "\n") {
				t.Errorf("event %q", name)
			}
		})
	})
}
