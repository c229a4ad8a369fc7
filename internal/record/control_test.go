package record

import (
	"errors"
	"testing"
)

func TestParseControlMatchesKafka(t *testing.T) {
	for name, tt := range map[string]struct {
		key, value []byte
		want       Control
		corrupt    bool
	}{
		"abort": {[]byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 8},
			Control{ControlAbort, 8}, false},
		"commit": {[]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 1, 0},
			Control{ControlCommit, 256}, false},
		"unknown type": {[]byte{0, 0, 0, 9}, nil, Control{Type: 9}, false},
		"later version": {[]byte{0, 1, 0, 1, 7, 7}, []byte{0, 1, 0, 0, 0, 5, 9, 9},
			Control{ControlCommit, 5}, false},
		"negative coordinator epoch": {[]byte{0, 0, 0, 1}, []byte{0, 0, 255, 255, 255, 255},
			Control{ControlCommit, -1}, false},
		"null key":  {nil, []byte{0, 0, 0, 0, 0, 8}, Control{}, true},
		"short key": {[]byte{0, 0, 0}, []byte{0, 0, 0, 0, 0, 8}, Control{}, true},
		"negative key version": {[]byte{255, 255, 0, 1}, []byte{0, 0, 0, 0, 0, 8}, Control{},
			true},
		"marker without a value": {[]byte{0, 0, 0, 1}, nil, Control{}, true},
		"short marker":           {[]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0}, Control{}, true},
		"negative value version": {[]byte{0, 0, 0, 1}, []byte{128, 0, 0, 0, 0, 8}, Control{},
			true},
	} {
		got, err := ParseControl(&Record{Key: tt.key, Value: tt.value})
		if got != tt.want || (err != nil) != tt.corrupt || err != nil &&
			!errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzParseControl(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 8})
	f.Add([]byte{0, 0, 0, 7}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		control, err := ParseControl(&Record{Key: key, Value: value})
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		key, value = control.Bytes()
		if again, err := ParseControl(&Record{Key: key, Value: value}); err != nil ||
			again != control {
			t.Fatalf("%+v reads back as %+v, %v", control, again, err)
		}
	})
}
