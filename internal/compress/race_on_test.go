//go:build race

package compress

// raceDetector is true if the race detector is on. sync.Pool then drops items at random.
const raceDetector = true
