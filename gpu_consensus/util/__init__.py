"""What every room needs: checks, arrays, memory, threads, progress."""
