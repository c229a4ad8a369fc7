package placement

import "testing"

func TestMayStop(t *testing.T) {
	for name, c := range map[string]struct {
		partition Stop
		broker    int32
		want      bool
	}{
		"no replica":                 {Stop{[]int32{1, 2}, []int32{1}, 2}, 0, true},
		"all in sync":                {Stop{[]int32{0, 1, 2}, []int32{0, 1, 2}, 2}, 0, true},
		"enough others":              {Stop{[]int32{0, 1, 2}, []int32{0, 2}, 1}, 0, true},
		"too few others":             {Stop{[]int32{0, 1, 2}, []int32{0, 2}, 2}, 0, false},
		"last in-sync replica":       {Stop{[]int32{0, 1, 2}, []int32{0}, 1}, 0, false},
		"lagging, not needed":        {Stop{[]int32{0, 1, 2}, []int32{1, 2}, 2}, 0, true},
		"lagging, needed":            {Stop{[]int32{0, 1, 2}, []int32{1}, 2}, 0, false},
		"lagging, needs all":         {Stop{[]int32{0, 1}, []int32{1}, 2}, 0, false},
		"single replica":             {Stop{[]int32{0}, []int32{0}, 1}, 0, true},
		"single replica, offline":    {Stop{[]int32{0}, nil, 1}, 0, true},
		"needs all, all in sync":     {Stop{[]int32{0, 1}, []int32{0, 1}, 2}, 0, true},
		"needs all, other lagging":   {Stop{[]int32{0, 1}, []int32{0}, 2}, 0, false},
		"needs more than replicas":   {Stop{[]int32{0, 1}, []int32{0, 1}, 3}, 0, true},
		"offline, waits for all":     {Stop{[]int32{0, 1}, nil, 1}, 0, false},
		"offline, broker not needed": {Stop{[]int32{1, 2}, nil, 1}, 0, true},
	} {
		if got := c.partition.MayStop(c.broker); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
