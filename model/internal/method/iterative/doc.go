// Package iterative has the methods that search directions step by step, tnca and lsdr. tnca starts at those of pairacc
// or mfa.
package iterative
