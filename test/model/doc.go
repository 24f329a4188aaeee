// Package model has models of what a limiter does when things break: a failover, processes that decide by a share, the count
// of live processes, refusals that are remembered. Each is small and shares no code with what it is about. All its states are
// visited, the bounds that the documentation states hold in each, and one of them meets the bound; a fault that is seeded into
// a model is found. What is modelled, and what is not, is told in docs/model.md.
package model
