package transaction

import (
	"errors"
	"regexp"
	"testing"
	"time"
)

func TestListAndDescribe(t *testing.T) {
	l := newLog(t, ongoing(3, 2))
	l.now = l.now.Add(10 * time.Second)
	l.apply(l.Init(l.now, Init{To: l.next(), ID: "b", Timeout: time.Minute, Expected: none}))
	for name, test := range map[string]struct {
		filter Filter
		want   string
	}{
		"all":      {Filter{OpenFor: -1}, "ab"},
		"phase":    {Filter{OpenFor: -1, Phases: []string{"Empty"}}, "b"},
		"producer": {Filter{OpenFor: -1, Producers: []int64{7}}, "a"},
		"pattern":  {Filter{OpenFor: -1, Pattern: regexp.MustCompile("^(?:b)$")}, "b"},
		"open":     {Filter{OpenFor: 10 * time.Second}, "a"},
		"too long": {Filter{OpenFor: 11 * time.Second}, ""},
	} {
		got := ""
		for _, d := range l.List(l.now, test.filter) {
			got += d.ID
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	d, err := l.Describe("a")
	if err != nil {
		t.Fatalf("%v", err)
	}
	if d.Phase != Ongoing || d.Producer != (Producer{7, 3}) {
		t.Errorf("got %v of %+v, want Ongoing of 7 in epoch 3", d.Phase, d.Producer)
	}
	if len(d.Partitions) != 1 || d.Timeout != time.Minute {
		t.Errorf("got %+v, want one partition and one minute", d)
	}
	if _, err := l.Describe("c"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	counts := map[string]int{}
	if l.CountPhases(counts); counts["Ongoing"] != 1 || counts["Empty"] != 1 {
		t.Errorf("got counts %v", counts)
	}
}
