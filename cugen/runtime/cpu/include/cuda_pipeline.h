// Stands in for the toolkit's header of this name; all that a kernel needs of it is there already.
#pragma once
