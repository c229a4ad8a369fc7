package controllers

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"heartwood.dev/heartwood/internal/operator/render"
)

// Setup adds all controllers to a manager.
func Setup(mgr ctrl.Manager, settings render.Settings) error { panic("unwritten") }
