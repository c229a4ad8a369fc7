package v1alpha1

import (
	"reflect"
	"testing"
)

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
