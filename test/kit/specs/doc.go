// Package specs runs specifications in the style of Ginkgo as parallel subtests of one Go test.
// Ginkgo itself runs the specs of a process one after another. Ginkgo's parallel processes need a
// separate command, and each process would need its own API server or operator.
//
// Each spec is a subtest "container spec", which `go test -run 'Test/container_spec'` selects. A
// container's function runs again for each of its specs, so the specs do not share the values of
// the container's variables. Parallel specs share everything outside the container, so each spec
// works in its own namespace. Declare a spec that observes or changes the whole cluster or process
// with ItAlone.
//
// A failed assertion of Gomega's global functions panics and ends the spec. Such assertions must
// run on the spec's goroutine.
package specs
