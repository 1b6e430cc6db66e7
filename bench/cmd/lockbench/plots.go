package main

func plots(r *results, dir string) error { return nil }
