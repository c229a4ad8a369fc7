package specs

import (
	"reflect"
	"strings"
	"sync"
	"testing"
)

// parallel is the number of specs that run at the same time. Specs mostly wait for the API server,
// and for intervals of the components under test.
const parallel = 8

// A container is a group of specs with a common text and common preparations.
type container struct {
	text string
	body func()
}

// A spec is the content of one It in a container.
type spec struct {
	name   string
	body   func(*testing.T)
	alone  bool
	before []func(*testing.T)
}

// A TableEntry is one row of a DescribeTable.
type TableEntry struct {
	text string
	args []any
}

var (
	containers []container
	// building protects declared and before, to which the containers' functions append.
	building sync.Mutex
	declared []spec
	before   []func(*testing.T)
)

// Describe declares a container. It returns true, so a package variable can be initialized with the
// call.
func Describe(text string, body func()) bool {
	containers = append(containers, container{text, body})
	return true
}

// BeforeEach declares a function that runs before each spec of the container.
func BeforeEach(body func(*testing.T)) { before = append(before, body) }

// It declares a spec that runs at the same time as other specs.
func It(text string, body func(*testing.T)) {
	declared = append(declared, spec{name: text, body: body})
}

// ItAlone declares a spec that runs while no other spec runs.
func ItAlone(text string, body func(*testing.T)) {
	declared = append(declared, spec{name: text, body: body, alone: true})
}

// DescribeTable declares a spec for each entry. The spec calls body with the entry's arguments.
func DescribeTable(text string, body any, entries ...TableEntry) {
	function := reflect.ValueOf(body)
	for _, entry := range entries {
		It(text+" "+entry.text, func(*testing.T) {
			args := make([]reflect.Value, 0, len(entry.args))
			for _, arg := range entry.args {
				args = append(args, reflect.ValueOf(arg))
			}
			function.Call(args)
		})
	}
}

// Entry returns a row of a DescribeTable.
func Entry(text string, args ...any) TableEntry { return TableEntry{text, args} }

// Run runs the specs of all containers.
func Run(t *testing.T) {
	var together, alone []func()
	for _, c := range containers {
		for index, s := range c.specs() {
			run := func() { t.Run(s.name, func(t *testing.T) { c.specs()[index].run(t) }) }
			if s.alone {
				alone = append(alone, run)
			} else {
				together = append(together, run)
			}
		}
	}
	t.Logf("%d specs, %d of them alone", len(together)+len(alone), len(alone))
	runTogether(together)
	for _, run := range alone {
		run()
	}
}

// runTogether calls all functions, several at the same time.
func runTogether(all []func()) {
	next := make(chan func())
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for run := range next {
				run()
			}
		})
	}
	for _, run := range all {
		next <- run
	}
	close(next)
	workers.Wait()
}

// specs runs the container's function and returns the container's specs. Each call creates new
// variables.
func (c *container) specs() []spec {
	building.Lock()
	defer building.Unlock()
	declared, before = nil, nil
	c.body()
	for i := range declared {
		// Replace slashes, because a slash would separate levels of subtests.
		declared[i].name = strings.ReplaceAll(c.text+" "+declared[i].name, "/", "-")
		declared[i].before = before
	}
	return declared
}

func (s *spec) run(t *testing.T) {
	Guard(t, func() {
		for _, prepare := range s.before {
			prepare(t)
		}
		s.body(t)
	})
}
