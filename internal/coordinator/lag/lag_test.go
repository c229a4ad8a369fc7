package lag

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

// model computes a Summary directly from the definition: one offset at a time, with a search for
// each element of Top.
func model(committed []Committed, ends map[Partition]int64, limit int) (s Summary) {
	sums := map[[2]string]int64{}
	for _, c := range committed {
		for _, o := range c.Offsets {
			end, ok := ends[Partition{c.Topic, o.Partition}]
			if !ok {
				s.Unknown++
				continue
			}
			behind := end - o.Offset
			if behind < 0 {
				behind = 0
			}
			sums[[2]string{c.Group, c.Topic}] += behind
			s.Offsets += behind
		}
	}
	for len(sums) > 0 && len(s.Top) < limit {
		var best [2]string
		first := true
		for pair, sum := range sums {
			better := sum > sums[best] || sum == sums[best] &&
				(pair[0] < best[0] || pair[0] == best[0] && pair[1] < best[1])
			if first || better {
				best, first = pair, false
			}
		}
		s.Top = append(s.Top, Pair{best[0], best[1], sums[best]})
		delete(sums, best)
	}
	s.Omitted = len(sums)
	return s
}

func TestSummaryEqualsModel(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 500 {
		committed, ends := generate(random)
		limit := random.IntN(8)
		got, want := Summarize(committed, ends, limit), model(committed, ends, limit)
		if len(got.Top) == 0 {
			got.Top = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("committed %v, ends %v, limit %d:\ngot  %+v\nwant %+v", committed, ends, limit,
				got, want)
		}
	}
}

// generate returns random offsets for few groups, topics and distances, so that equal sums and
// missing end offsets are frequent.
func generate(random *rand.Rand) (committed []Committed, ends map[Partition]int64) {
	ends = map[Partition]int64{}
	for topic := range 3 {
		for partition := range int32(3) {
			if random.IntN(4) > 0 {
				ends[Partition{fmt.Sprint("t", topic), partition}] = random.Int64N(4)
			}
		}
	}
	for group := range random.IntN(4) {
		for topic := range 3 {
			c := Committed{Group: fmt.Sprint("g", group), Topic: fmt.Sprint("t", topic)}
			for partition := range int32(3) {
				if random.IntN(2) > 0 {
					c.Offsets = append(c.Offsets, Offset{partition, random.Int64N(4)})
				}
			}
			if len(c.Offsets) > 0 {
				committed = append(committed, c)
			}
		}
	}
	random.Shuffle(len(committed), func(i, j int) {
		committed[i], committed[j] = committed[j], committed[i]
	})
	return committed, ends
}

func TestSummaryOfAnExample(t *testing.T) {
	committed := []Committed{
		{"billing", "tickets", []Offset{{0, 90}, {1, 40}, {2, 7}}},
		{"audit", "tickets", []Offset{{0, 100}, {1, 55}}}, // 55 is above the end offset
		{"audit", "events", []Offset{{0, 1}}},
		{"lost", "elsewhere", []Offset{{0, 5}}},
	}
	ends := map[Partition]int64{{"tickets", 0}: 100, {"tickets", 1}: 50, {"events", 0}: 4}
	want := Summary{
		Top:     []Pair{{"billing", "tickets", 20}, {"audit", "events", 3}},
		Omitted: 1, Offsets: 23, Unknown: 2,
	}
	if got := Summarize(committed, ends, 2); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	partitions := []Partition{{"elsewhere", 0}, {"events", 0}, {"tickets", 0}, {"tickets", 1},
		{"tickets", 2}}
	if got := Partitions(committed); !slices.Equal(got, partitions) {
		t.Errorf("partitions: got %v, want %v", got, partitions)
	}
}
