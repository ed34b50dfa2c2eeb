"""What each warpgroup of a warp-specialised kernel executes."""
