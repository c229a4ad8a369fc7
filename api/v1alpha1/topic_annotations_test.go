package v1alpha1

import (
	"reflect"
	"strings"
	"testing"
)

func TestAcceptedDataLossIgnoresInvalidWords(t *testing.T) {
	topic := &Topic{}
	for value, want := range map[string]map[int32]string{
		"":                         nil,
		"disk":                     nil,
		"3=":                       nil,
		"-1=disk":                  nil,
		"3=disk":                   {3: "disk"},
		"3=disk@7  x=y\n5=other@1": {3: "disk@7", 5: "other@1"},
	} {
		topic.Annotations = map[string]string{AnnotationAcceptDataLoss: value}
		if got := topic.AcceptedDataLoss(); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

func TestReassignmentsAreParsed(t *testing.T) {
	topic := &Topic{}
	for value, want := range map[string]map[int32][]int32{
		"":                nil,
		"0=1,2,3 4=2,3,0": {0: {1, 2, 3}, 4: {2, 3, 0}},
		"7=0":             {7: {0}},
	} {
		topic.Annotations = map[string]string{AnnotationReassign: value}
		if got, err := topic.Reassignments(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, %v; want %v", value, got, err, want)
		}
	}
	for value, want := range map[string]string{
		"0": "want PARTITION", "0=": "want PARTITION", "a=1": "want PARTITION",
		"0=1,x": "want PARTITION=BROKER", "0=1,": "want PARTITION=BROKER", "0=-1": "BROKER",
		"0=1,1": "broker 1 twice", "0=1 0=2": "partition 0 is named twice",
	} {
		topic.Annotations = map[string]string{AnnotationReassign: value}
		if got, err := topic.Reassignments(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, error %v; want an error with %q", value, got, err, want)
		}
	}
}
