// Package specs runs specifications in the style of Ginkgo as parallel subtests of one Go test.
// Ginkgo itself runs the specs of a process one after another. Its parallel processes need a
// separate command, and each would need its own API server or operator.
//
// Each spec is a subtest "container spec", which `go test -run 'Test/container_spec'` selects. The
// function of a container runs again for each of its specs, so its specs do not share the values of
// its variables. Parallel specs share everything outside of the container. A spec therefore works
// in its own namespace. A spec that observes or changes the whole cluster or process is declared by
// ItAlone.
//
// A failed assertion of Gomega's global functions panics, and ends the spec. The assertion must be
// on the goroutine of the spec.
package specs
