package httpport

import (
	"net/http"
	"net/http/pprof"
)

// PprofPath is the path prefix of the profiles that NewPprof serves.
const PprofPath = "/debug/pprof/"

// NewPprof returns a handler that serves profiles below PprofPath, in the format of go tool pprof.
// It must be enabled by a flag, because recording a CPU profile or an execution trace costs CPU
// time, and heap and goroutine profiles reveal internals of the process.
//
// The import of net/http/pprof also registers the profiles with http.DefaultServeMux, which no
// server of this module uses.
func NewPprof() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PprofPath, pprof.Index)
	mux.HandleFunc("GET "+PprofPath+"cmdline", pprof.Cmdline)
	mux.HandleFunc("GET "+PprofPath+"profile", pprof.Profile)
	mux.HandleFunc("GET "+PprofPath+"trace", pprof.Trace)
	// go tool pprof uses POST to send the addresses that it wants to resolve.
	mux.HandleFunc("POST "+PprofPath+"symbol", pprof.Symbol)
	mux.HandleFunc("GET "+PprofPath+"symbol", pprof.Symbol)
	return mux
}
