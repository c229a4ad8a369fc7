package assignor

import "container/heap"

// queue is a heap of members, identified by their indexes. It is ordered by load, and by index for
// equal loads.
type queue struct {
	members []int
	// load contains each member's load. A caller that increases the load of least() must call fix.
	load []int
}

func newQueue(members []int, load []int) *queue {
	q := &queue{append([]int(nil), members...), load}
	heap.Init(q)
	return q
}

func (q *queue) least() int { return q.members[0] }
func (q *queue) fix()       { heap.Fix(q, 0) }

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q *queue) Len() int { return len(q.members) }
func (q *queue) Less(i, j int) bool {
	a, b := q.members[i], q.members[j]
	return q.load[a] < q.load[b] || q.load[a] == q.load[b] && a < b
}
func (q *queue) Swap(i, j int) { q.members[i], q.members[j] = q.members[j], q.members[i] }
func (q *queue) Push(x any) {
	q.members = append(q.members, x.(int)) //nolint:forcetypeassert // the heap contains only ints
}
func (q *queue) Pop() any {
	last := q.members[len(q.members)-1]
	q.members = q.members[:len(q.members)-1]
	return last
}
