// Package specs runs specifications in the style of Ginkgo as parallel subtests of one Go test.
// Ginkgo itself runs specs one after another within a process; its processes in parallel need a
// command of their own, and each would need an API server or an operator of its own.
//
// Each spec is a subtest "container spec", which `go test -run 'Test/container_spec'` selects. The
// function of a container runs anew for each of its specs, so that variables that its specs share
// in the source are not shared in a run. Specs that run at the same time share what is outside of
// the container: a spec works in a namespace of its own, and one that observes or changes something
// of the whole cluster or process is declared by ItAlone.
//
// A failed assertion of Gomega's global functions panics, and ends the spec. It must be on the
// goroutine of the spec.
package specs
