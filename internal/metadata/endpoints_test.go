package metadata

import (
	"encoding/json"
	"testing"
)

func TestEndpointsAreFoundByListener(t *testing.T) {
	broker := Broker{ID: 1, Endpoints: NewEndpoints(map[string]Endpoint{
		"tls": {Host: "::1", Port: 9093}, DefaultListener: {Host: "b1.example", Port: 9092},
	})}
	if want := Endpoints("kafka://b1.example:9092,tls://[::1]:9093"); broker.Endpoints != want {
		t.Errorf("got endpoints %q, want %q", broker.Endpoints, want)
	}
	for listener, want := range map[string]Endpoint{
		DefaultListener: {"b1.example", 9092}, "tls": {"::1", 9093},
	} {
		if got, ok := broker.Endpoints.On(listener); !ok || got != want {
			t.Errorf("listener %q: endpoint %v, found %v, want %v", listener, got, ok, want)
		}
	}
	for _, listener := range []string{"", "ls", "out"} {
		if got, ok := broker.Endpoints.On(listener); ok {
			t.Errorf("listener %q: endpoint %v, want none", listener, got)
		}
	}
	if got, ok := (Broker{}).Endpoints.On(""); ok {
		t.Errorf("a broker without endpoints: got %v, want none", got)
	}
}

// TestEndpointsSurviveJSON checks that endpoints survive encoding as JSON. Package remote, the
// metadata store of a dev broker in another process, sends brokers in this form.
func TestEndpointsSurviveJSON(t *testing.T) {
	want := Broker{ID: 1, Endpoints: "kafka://b1.example:9092,tls://b1.example:9093"}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Broker
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("%s decodes to %+v, error %v, want %+v", text, got, err, want)
	}
}

func TestParseEndpointRejectsUnusableAddresses(t *testing.T) {
	for _, text := range []string{"", "host", ":9092", "host:0", "host:65536", "host:-1",
		"host:http", "a:b:1"} {
		if got, err := ParseEndpoint(text); err == nil {
			t.Errorf("ParseEndpoint(%q) = %v, want an error", text, got)
		}
	}
	if got, err := ParseEndpoint("[::1]:9092"); err != nil || got.String() != "[::1]:9092" {
		t.Errorf("ParseEndpoint returned %v, error %v", got, err)
	}
}
