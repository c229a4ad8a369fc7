package v1alpha1

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestListenersDecodeTheObjectOfEarlierVersions(t *testing.T) {
	for text, want := range map[string]Listeners{
		`{"port": 19092}`: {{Name: "kafka", Port: 19092, Type: ListenerInternal,
			FromObject: true}},
		`{}`: {{Name: "kafka", Port: 9092, Type: ListenerInternal, FromObject: true}},
		` [{"name": "out", "port": 9094, "type": "NodePort", "tls": {}}]`: {{Name: "out",
			Port: 9094, Type: ListenerNodePort, TLS: &ListenerTLS{}}},
		`null`: nil,
	} {
		var got Listeners
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
		if got.FromObject() != want.FromObject() {
			t.Errorf("%s: FromObject is %t", text, got.FromObject())
		}
	}
	for _, text := range []string{`{"port": "a"}`, `"kafka"`, `[1]`, `{"port": 99999999999}`} {
		if err := json.Unmarshal([]byte(text), &Listeners{}); err == nil {
			t.Errorf("%s: got no error", text)
		}
	}
}

func TestRewrittenListenersAreAList(t *testing.T) {
	listeners := Listeners{}
	if err := json.Unmarshal([]byte(`{"port": 19092}`), &listeners); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(listeners)
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"name":"kafka","port":19092,"type":"Internal"}]`; string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

func TestListenersDefault(t *testing.T) {
	if got := Listeners(nil).OrDefault(); len(got) != 1 || got[0].Port != DefaultListenerPort ||
		got[0].Name != DefaultListenerName {
		t.Errorf("got %+v", got)
	}
	kept := Listeners{{Name: "a", Port: 1}}
	if got := kept.OrDefault(); !reflect.DeepEqual(got, kept) {
		t.Errorf("got %+v", got)
	}
}

func TestListenersWithTheSamePortAreInvalid(t *testing.T) {
	if err := (Listeners{{Name: "a", Port: 1}, {Name: "b", Port: 2}}).Validate(); err != nil {
		t.Error(err)
	}
	err := Listeners{{Name: "a", Port: 1}, {Name: "b", Port: 2}, {Name: "c", Port: 1}}.Validate()
	const want = "listeners a and c have the same port 1: change one of them"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
